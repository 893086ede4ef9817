package main

import (
	"bufio"
	"bytes"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
)

type proxy struct {
	upstream string
	plans    *plans
	pass     *httputil.ReverseProxy
}

func newProxy(upstream string) *proxy {
	to := &url.URL{Scheme: "http", Host: upstream}
	return &proxy{upstream: upstream, plans: newPlans(), pass: &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(to) },
		Transport:     &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64},
		FlushInterval: -1,
	}}
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/cutter/v1/") {
		p.plans.control(w, r)
		return
	}
	body, err := io.ReadAll(r.Body) // a ReverseProxy that streams it cuts an innocent answer now and then
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	header := r.Header.Get("Cut")
	r.Header.Del("Cut")
	if plan := p.plans.enter(header); plan != nil {
		p.cut(w, r, plan)
		return
	}
	p.pass.ServeHTTP(w, r)
}

// cut passes an answer on up to the plan's place over a connection of its own. First the gateway loses its client,
// then the client its gateway.
func (p *proxy) cut(w http.ResponseWriter, r *http.Request, pl *plan) {
	conn, err := net.Dial("tcp", p.upstream)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer conn.Close()
	finished := make(chan struct{})
	defer close(finished)
	go func() {
		select {
		case <-pl.now:
			hangUp(conn, pl)
		case <-finished:
		}
	}()
	made := passUpTo(w, r, conn, pl)
	hangUp(conn, pl)
	p.plans.update(pl.id, func(done *plan) { done.cut = made })
	panic(http.ErrAbortHandler)
}

func hangUp(conn net.Conn, plan *plan) {
	if tcp, ok := conn.(*net.TCPConn); ok && !plan.fin {
		_ = tcp.SetLinger(0) // a connection that is closed already has been hung up
	}
	_ = conn.Close()
}

// passUpTo says whether the place was reached.
func passUpTo(w http.ResponseWriter, r *http.Request, conn net.Conn, plan *plan) bool {
	out := r.Clone(r.Context())
	out.URL.Scheme, out.URL.Host, out.Host, out.ContentLength = "http", conn.RemoteAddr().String(), "", r.ContentLength
	if err := out.Write(conn); err != nil {
		return false
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), out)
	if err != nil {
		return plan.commanded()
	}
	// The body is not closed: that would read it to its end first.
	if plan.at == "none" {
		return true
	}
	maps.Copy(w.Header(), resp.Header)
	w.WriteHeader(resp.StatusCode)
	_ = http.NewResponseController(w).Flush() // a client that left early is cut all the same
	if plan.at == "head" {
		return true
	}
	return passBody(w, resp, plan)
}

// passBody goes on when the client leaves early: one that has read its stream's last event does.
func passBody(w http.ResponseWriter, resp *http.Response, plan *plan) bool {
	events := strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream")
	rc := http.NewResponseController(w)
	var body []byte
	sent := 0
	send := func(to int) {
		if to > sent {
			_, _ = w.Write(body[sent:to])
			_ = rc.Flush()
			sent = to
		}
	}
	piece := make([]byte, 32<<10)
	for {
		n, err := resp.Body.Read(piece)
		body = append(body, piece[:n]...)
		if at := plan.place(body, events); n > 0 && at >= 0 {
			send(at)
			return true
		}
		keep := 0
		if resp.ContentLength >= 0 {
			keep = 1 // else its length would tell the client that it has everything
		}
		send(max(sent, len(body)-keep))
		if err != nil {
			return err == io.EOF && plan.at == "end" || plan.commanded()
		}
	}
}

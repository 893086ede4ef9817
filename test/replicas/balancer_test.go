package replicas

import (
	"context"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"sync"
	"testing"
	"time"
)

// balancer passes each request to a random one of those that say that they are ready, over a connection of its own, once. It is
// what a user puts in front: it knows no keys, keeps nobody at one replica, and repeats nothing.
type balancer struct {
	URL  string
	mu   sync.Mutex
	back []*backend
}

// backend is one replica as the balancer sees it.
type backend struct {
	url   string // "": there is none
	ready bool
	took  int // requests passed to it
}

// replicaHeader says to a test which replica answered.
const replicaHeader = "X-Test-Replica"

func newBalancer(t *testing.T, n int) *balancer {
	b := &balancer{}
	ctx, stop := context.WithCancel(context.Background())
	checks := &sync.WaitGroup{}
	for range n {
		k := &backend{}
		b.back = append(b.back, k)
		checks.Go(func() { b.check(ctx, k) })
	}
	s := httptest.NewUnstartedServer(b)
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // of answers that were cut on purpose
	s.Start()
	b.URL = s.URL
	t.Cleanup(func() {
		stop()
		checks.Wait()
		s.CloseClientConnections()
		s.Close()
	})
	return b
}

// direct passes over a new connection each time: a replica that ends closes none that somebody is about to use.
var direct = &http.Transport{DisableKeepAlives: true, DisableCompression: true}

const (
	checkEvery = 20 * time.Millisecond
	checkWait  = time.Second
)

// check asks a replica whether it is ready, again and again.
func (b *balancer) check(ctx context.Context, k *backend) {
	ticker := time.NewTicker(checkEvery)
	defer ticker.Stop()
	client := &http.Client{Transport: direct, Timeout: checkWait}
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		b.mu.Lock()
		at := k.url
		b.mu.Unlock()
		ready := at != "" && asked(client, at+"/readyz") == http.StatusOK
		b.mu.Lock()
		k.ready = ready && k.url == at
		b.mu.Unlock()
	}
}

// asked is the status of an address, or 0.
func asked(client *http.Client, url string) int {
	resp, err := client.Get(url)
	if err != nil {
		return 0
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// set tells where a replica is; "": nowhere.
func (b *balancer) set(i int, url string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.back[i].url, b.back[i].ready = url, false
}

// ready reports which replicas get requests.
func (b *balancer) ready(i int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.back[i].ready
}

// pick is a random ready replica.
func (b *balancer) pick() (i int, base string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for at, k := range b.back {
		if !k.ready {
			continue
		}
		if n++; rand.IntN(n) == 0 {
			i, base = at, k.url
		}
	}
	if base != "" {
		b.back[i].took++
	}
	return i, base
}

func (b *balancer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i, base := b.pick()
	if base == "" {
		refuse(w, http.StatusServiceUnavailable, "no replica is ready")
		return
	}
	to, err := url.Parse(base)
	if err != nil {
		refuse(w, http.StatusInternalServerError, err.Error())
		return
	}
	p := &httputil.ReverseProxy{Transport: direct, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(pr *httputil.ProxyRequest) { pr.SetURL(to) },
		ModifyResponse: func(resp *http.Response) error {
			resp.Header.Set(replicaHeader, strconv.Itoa(i))
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			w.Header().Set(replicaHeader, strconv.Itoa(i))
			refuse(w, http.StatusBadGateway, err.Error())
		}}
	p.ServeHTTP(w, r)
}

// refuse is the balancer's own word: its clients ask again.
func refuse(w http.ResponseWriter, status int, why string) {
	w.Header().Set("X-Should-Retry", "true")
	w.Header().Set("X-Test-Balancer", why)
	http.Error(w, why, status)
}

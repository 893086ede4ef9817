//go:build unix

package upstream

import (
	"context"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// The reference row of both benchmarks is net/http's transport as the fastest way to use it: no hooks, no wrapping.

func BenchmarkPlain(b *testing.B) {
	compare(b, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nDate: Sun, 29 Nov 2026 20:00:00 GMT\r\nContent-Length: 650\r\n\r\n"+strings.Repeat("x", 650))
}

func BenchmarkStream(b *testing.B) {
	var answer strings.Builder
	answer.WriteString("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nDate: Sun, 29 Nov 2026 20:00:00 GMT\r\nTransfer-Encoding: chunked\r\n\r\n")
	for range 32 {
		writeChunk(&answer, "data: "+strings.Repeat("x", 120)+"\n\n")
	}
	writeChunk(&answer, "")
	compare(b, answer.String())
}

func compare(b *testing.B, answer string) {
	f := listen(b, func(p *peer) { serveFast(p.Conn, answer) })
	body := []byte(strings.Repeat("b", 1024))
	header := http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer key"}, "Accept": {"application/json"}}
	request := &Request{Method: "POST", Target: f.url, Header: header, Body: body}
	reference := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 512}
	defer reference.CloseIdleConnections()
	clients := map[string]func(context.Context) (io.ReadCloser, error){
		"pool":             doer(newClient(b, Config{}), request),
		"net_http_wrapped": doer(newTransport(Config{}.withDefaults()), request),
		"reference_net_http": func(ctx context.Context) (io.ReadCloser, error) {
			req, err := http.NewRequestWithContext(ctx, "POST", f.url.String(), strings.NewReader(string(body)))
			if err != nil {
				return nil, err
			}
			req.Header = header
			resp, err := reference.RoundTrip(req)
			if err != nil {
				return nil, err
			}
			return resp.Body, nil
		},
	}
	for _, name := range []string{"reference_net_http", "net_http_wrapped", "pool"} {
		b.Run("one_caller/"+name, func(b *testing.B) { measure(b, 0, clients[name]) })
		b.Run("64_callers/"+name, func(b *testing.B) { measure(b, 64, clients[name]) })
	}
}

func measure(b *testing.B, callers int, send func(context.Context) (io.ReadCloser, error)) {
	b.ReportAllocs()
	b.SetParallelism(max(1, callers/runtime.GOMAXPROCS(0)))
	once := func(buffer []byte) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		body, err := send(ctx)
		if err != nil {
			b.Error(err)
			return
		}
		for err == nil {
			_, err = body.Read(buffer)
		}
		if err != io.EOF {
			b.Error(err)
		}
		_ = body.Close()
	}
	before := cpuTime()
	if callers == 0 {
		for buffer := make([]byte, 4096); b.Loop(); {
			once(buffer)
		}
	} else {
		b.RunParallel(func(pb *testing.PB) {
			for buffer := make([]byte, 4096); pb.Next(); {
				once(buffer)
			}
		})
	}
	b.ReportMetric(float64(cpuTime()-before)/float64(b.N), "cpu-ns/op")
}

// cpuTime is what this process, the provider in it included, has used: on a shared machine it says more than the clock.
func cpuTime() int64 {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return used.Utime.Nano() + used.Stime.Nano()
}

func doer(c Client, r *Request) func(context.Context) (io.ReadCloser, error) {
	return func(ctx context.Context) (io.ReadCloser, error) {
		resp, err := c.Do(ctx, r)
		if err != nil {
			return nil, err
		}
		return resp.Body, nil
	}
}

// serveFast answers each read with one write and allocates nothing: what is measured is the client.
func serveFast(c net.Conn, answer string) {
	buffer, out := make([]byte, 64<<10), []byte(answer)
	for {
		got := 0
		for got < 1024 || buffer[got-1] != 'b' {
			n, err := c.Read(buffer[got:])
			if err != nil {
				return
			}
			got += n
		}
		if _, err := c.Write(out); err != nil {
			return
		}
	}
}

package upstream

import (
	"context"
	"net"
	"net/url"
	"slices"
	"sync"
	"time"
)

// pool calls over HTTP/1.1 without TLS, on connections of its own. A call costs no goroutine, one write, and reads when
// its caller does; a body over aside is the exception.
type pool struct {
	config  Config
	buffers *buffers

	mu    sync.Mutex
	idle  map[string][]*conn // longest idle first
	timer *time.Timer        // runs sweep; nil while nothing is idle
}

func newPool(c Config) *pool {
	return &pool{config: c, buffers: newBuffers(), idle: map[string][]*conn{}}
}

// Do implements Client for requests that checkRequest has passed.
func (p *pool) Do(ctx context.Context, r *Request) (*Response, error) {
	for {
		c, err := p.take(ctx, r.Target)
		if err != nil {
			return nil, newError(ctx, PhaseDial, None, err)
		}
		resp, fault := p.exchange(ctx, c, r)
		if fault == nil {
			return resp, nil
		}
		// The idle connection turned out dead before a byte left: this was no send. A fresh connection ends the loop.
		if fault.Sent == None && c.reused && ctx.Err() == nil && !isHeldBack(fault) {
			continue
		}
		return nil, fault
	}
}

// take gives an idle connection that looks alive, the one used last first, or a fresh one.
func (p *pool) take(ctx context.Context, target *url.URL) (*conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for c := p.pop(target.Host); c != nil; c = p.pop(target.Host) {
		if time.Since(c.since) < p.config.IdleTimeout && c.alive() {
			return c, nil
		}
		_ = c.Close()
	}
	port := target.Port()
	if port == "" {
		port = "80"
	}
	nc, err := p.config.DialContext(ctx, "tcp", net.JoinHostPort(target.Hostname(), port))
	if err != nil {
		return nil, err
	}
	return newConn(nc, target.Host), nil
}

func (p *pool) pop(key string) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.idle[key]
	if len(list) == 0 {
		return nil
	}
	last := len(list) - 1
	c := list[last]
	list[last] = nil
	p.idle[key] = list[:last]
	return c
}

func (p *pool) put(c *conn) {
	c.reused, c.since = true, time.Now()
	p.mu.Lock()
	list := p.idle[c.key]
	full := len(list) >= p.config.MaxIdlePerHost
	if !full {
		p.idle[c.key] = append(list, c)
		if p.timer == nil {
			p.timer = time.AfterFunc(p.config.IdleTimeout, p.sweep)
		}
	}
	p.mu.Unlock()
	if full {
		_ = c.Close()
	}
}

// sweep closes what has been idle for too long, and comes again when the next one will have been.
func (p *pool) sweep() {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := p.config.IdleTimeout
	for key, list := range p.idle {
		expired := 0
		for ; expired < len(list); expired++ {
			if left := p.config.IdleTimeout - time.Since(list[expired].since); left > 0 {
				next = min(next, left)
				break
			}
			_ = list[expired].Close()
		}
		if p.idle[key] = slices.Delete(list, 0, expired); len(p.idle[key]) == 0 {
			delete(p.idle, key)
		}
	}
	if p.timer != nil && len(p.idle) > 0 {
		p.timer.Reset(next)
	} else {
		p.timer = nil
	}
}

// CloseIdle implements Client.
func (p *pool) CloseIdle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, list := range p.idle {
		for _, c := range list {
			_ = c.Close()
		}
	}
	clear(p.idle)
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
}

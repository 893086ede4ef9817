package redis_test

import (
	"strings"
	"testing"

	"github.com/holdfast-ai/holdfast/internal/redistest"
	"github.com/holdfast-ai/holdfast/internal/shared"
	"github.com/holdfast-ai/holdfast/internal/shared/redis"
	"github.com/holdfast-ai/holdfast/internal/shared/sharedtest"
)

func open(t *testing.T, url, env string) shared.Driver {
	t.Helper()
	d, err := redis.Open(t.Context(), redis.Config{URL: url, Env: env})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

func TestConformance(t *testing.T) {
	server := redistest.Start(t)
	sharedtest.Run(t, sharedtest.Store{
		Open:   func(t *testing.T, env string) shared.Driver { return open(t, server.URL(), env) },
		Freeze: func(t *testing.T) func() { server.Freeze(t); return func() { server.Continue(t) } },
	})
}

// A password, a database and a cluster of one node: what addresses may say.
func TestAddresses(t *testing.T) {
	server := redistest.Start(t, "--requirepass", "s3cret")
	d := open(t, "redis://:s3cret@"+server.Addr()+"/3", "e")
	if _, _, err := d.Swap(t.Context(), shared.Register{Key: "k", Value: []byte("v")}, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := redis.Open(t.Context(), redis.Config{URL: server.URL()}); err == nil || !strings.Contains(err.Error(), "NOAUTH") {
		t.Errorf("without its password: %v", err)
	}
	for address, says := range map[string]string{
		"http://h": `"http" is no scheme`, "redis://": "names no host", "redis://h/x": "write a number", "redis://h?pool=3": `the parameter "pool"`,
	} {
		if err := redis.Check(address); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// All keys of an environment stand on one node of a cluster, whatever is in their names.
func TestCluster(t *testing.T) {
	server := redistest.Start(t, "--cluster-enabled", "yes")
	server.Do(t, "CLUSTER ADDSLOTSRANGE 0 16383")
	server.Await(t, "CLUSTER INFO", "cluster_state:ok")
	sharedtest.Run(t, sharedtest.Store{
		Open:   func(t *testing.T, env string) shared.Driver { return open(t, "redis://"+server.Addr(), env+"}{") },
		Freeze: func(t *testing.T) func() { server.Freeze(t); return func() { server.Continue(t) } },
	})
}

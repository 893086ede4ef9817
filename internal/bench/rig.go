package bench

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast-ai/holdfast/internal/proc"
)

// Names of the contenders.
const (
	direct       = "direct"
	reverseProxy = "ReverseProxy"
	gateway      = "holdfast"
)

// contender is one way from the load to the simulator.
type contender struct {
	name string
	addr string // host:port
	pid  int    // of the process in the middle; 0: there is none
}

// rig is a simulator with a reverse proxy and a gateway before it, each a process of its own.
type rig struct {
	dir     string // the gateway's folder: configuration and store
	sim     *proc.Process
	proxy   *proc.Process
	serve   *proc.Process
	command proc.Command // how the gateway is started
	where   *placement
}

// stopPatience bounds the wait for a child that was asked to end.
const stopPatience = 15 * time.Second

// config is what every measurement of the gateway runs with: the defaults, and a second workflow that is strict.
const config = `workflows:
  default: {}
  strict: {durability: strict}
`

// newRig starts the three processes; simArgs say what the simulator answers.
func (r *run) newRig(name string, simArgs ...string) (g *rig, err error) {
	g = &rig{dir: filepath.Join(r.dir, name), where: r.where}
	defer func() {
		if err != nil {
			g.close()
			g = nil
		}
	}()
	if err := os.MkdirAll(g.dir, 0o700); err != nil {
		return g, err
	}
	file := filepath.Join(g.dir, "holdfast.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return g, err
	}
	base := proc.Command{Exe: r.cfg.Exe, Env: r.cfg.Env, Dir: g.dir}
	sim := base
	sim.Args = simArgs
	if g.sim, err = proc.Sim(sim); err != nil {
		return g, err
	}
	err = r.where.inTheMiddle(func() (err error) {
		proxy := base
		proxy.Args = []string{"--upstream", g.sim.URL}
		g.proxy, err = proc.ReverseProxy(proxy)
		return err
	})
	if err != nil {
		return g, err
	}
	g.command = base
	g.command.Args = []string{"--config", file, "--store", "sqlite:" + filepath.Join(g.dir, "holdfast.db"),
		"--upstream", "openai=" + g.sim.URL + "/v1", "--upstream", "anthropic=" + g.sim.URL, "--upstream", "gemini=" + g.sim.URL}
	if r.cfg.ProfileGateway != "" {
		g.command.Args = append(g.command.Args, "--pprof", r.cfg.ProfileGateway)
	}
	return g, g.startGateway()
}

func (g *rig) startGateway() error {
	return g.where.inTheMiddle(func() (err error) {
		g.serve, err = proc.Serve(g.command)
		return err
	})
}

// restart gives the gateway an empty memory; its store stays.
func (g *rig) restart() error {
	if err := g.serve.Stop(stopPatience); err != nil {
		return fmt.Errorf("stop the gateway: %w", err)
	}
	return g.startGateway()
}

func (g *rig) contenders() []contender {
	return []contender{
		{direct, host(g.sim.URL), 0},
		{reverseProxy, host(g.proxy.URL), g.proxy.ID()},
		{gateway, host(g.serve.URL), g.serve.ID()},
	}
}

func host(url string) string { return strings.TrimPrefix(url, "http://") }

// close ends what runs, the gateway first: a simulator that goes away would make it record failures.
func (g *rig) close() error {
	var errs []error
	for _, p := range []*proc.Process{g.serve, g.proxy, g.sim} {
		if p != nil {
			errs = append(errs, p.Stop(stopPatience))
		}
	}
	return errors.Join(errs...)
}

// kill ends what runs at once, for measurements that leave open calls behind.
func (g *rig) kill() {
	for _, p := range []*proc.Process{g.serve, g.proxy, g.sim} {
		if p != nil {
			p.Kill()
		}
	}
}

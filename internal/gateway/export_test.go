package gateway

// Held is what a gateway at rest has given back: places among the workers, bytes of bodies, running executions.
func (g *Gateway) Held() (working, memory int64, executions int) {
	g.registry.each(func(*execution) { executions++ })
	return g.working.Load(), g.mem.Used(), executions
}

package gateway

// Holding is what a gateway has taken and not yet given back; at rest it is zero.
type Holding struct {
	Working    int64 // places among the workers
	Memory     int64 // bytes of bodies
	Executions int
	Drains     int // answers that are finished for clients that left
}

// Holding says what is held now.
func (g *Gateway) Holding() (h Holding) {
	g.registry.each(func(*execution) { h.Executions++ })
	h.Working, h.Memory = g.working.Load(), g.mem.used.Load()
	g.drains.mu.Lock()
	defer g.drains.mu.Unlock()
	h.Drains = len(g.drains.list)
	return h
}

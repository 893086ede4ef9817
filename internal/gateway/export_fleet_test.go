package gateway

// Mirrors counts the executions of other gateways that g follows.
func Mirrors(g *Gateway) (n int) {
	g.registry.each(func(e *execution) {
		if e.isMirror() {
			n++
		}
	})
	return n
}

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

// Attached counts the clients of all executions in g, mirrors included.
func Attached(g *Gateway) (n int) {
	g.registry.each(func(e *execution) { n += e.attached() })
	return n
}

package gateway

import "github.com/holdfast-ai/holdfast/ledger"

// Lost counts the operations whose answer is known to be lost, Clients those who wait for one under a derived key.
func Lost(g *Gateway) (n int) {
	each(g, func(s *sighting) {
		if s.delivery == ledger.DeliveryLost {
			n++
		}
	})
	return n
}

func Clients(g *Gateway) (n int) {
	each(g, func(s *sighting) { n += s.clients })
	return n
}

// Sightings counts the operations that a request may adopt.
func Sightings(g *Gateway) (n int) {
	each(g, func(*sighting) { n++ })
	return n
}

// Remembered are the bytes of answers that wait in memory for somebody to ask for them again.
func Remembered(g *Gateway) (n int) {
	each(g, func(s *sighting) {
		if s.answer != nil {
			n += len(s.answer.body)
		}
	})
	return n
}

func each(g *Gateway, f func(*sighting)) {
	for i := range g.sightings.shards {
		sh := &g.sightings.shards[i]
		sh.mu.Lock()
		for _, l := range sh.m {
			for _, s := range l.all {
				s.mu.Lock()
				f(s)
				s.mu.Unlock()
			}
		}
		sh.mu.Unlock()
	}
}

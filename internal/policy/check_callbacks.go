package policy

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/holdfast-ai/holdfast/internal/callback"
)

const (
	// encodedSecret begins a secret that is the base64 of its key (Standard Webhooks).
	encodedSecret = "whsec_"
	// leastSecret is the least that such a key has in bytes, by that specification.
	leastSecret = 24
)

func (k *checker) callbacks(path string, c *Callbacks) {
	secret := c.Secret.Reveal()
	const better = `write "${CALLBACK_SECRET}", with whsec_ and what openssl rand -base64 32 prints in it`
	encoded := strings.HasPrefix(secret, encodedSecret)
	_, err := callback.Key(secret)
	switch {
	case !k.c.Written(path+".secret") && len(c.Allow) > 0:
		k.warn(path+".allow", "lists what may be called, and without a secret nothing is: a job with a callback_url is refused", "set secret, too")
	case err != nil:
		k.fail(path+".secret", "is not whsec_ and the base64 of 24 to 64 bytes, so that no receiver could verify what it signs", better)
	case secret != "" && !encoded && len(secret) < leastSecret:
		k.warn(path+".secret", "is shorter than "+strconv.Itoa(leastSecret)+" bytes, so that a forged callback is no great work", better)
	}
	for i, entry := range c.Allow {
		if p, err := netip.ParsePrefix(entry); err == nil && p.Bits() == 0 {
			k.warn(item(path+".allow", i), "allows every address, those of this machine and of the cloud's metadata among them", "list the networks of your receivers")
		}
	}
}

package idempotency

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
)

// ErrInvalidKey is a caller's key that is none: refuse it with 400 invalid_idempotency_key.
var ErrInvalidKey = errors.New("idempotency: Idempotency-Key must be one value of 1 to 255 visible ASCII characters")

// MaxKey is the length of the longest caller's key.
const MaxKey = 255

// ValidateKey returns [ErrInvalidKey] with the reason, which does not quote the key, or nil.
func ValidateKey(key string) error {
	if len(key) == 0 {
		return fmt.Errorf("%w: it is empty", ErrInvalidKey)
	}
	if len(key) > MaxKey {
		return fmt.Errorf("%w: it has %d", ErrInvalidKey, len(key))
	}
	for i := range len(key) {
		if key[i] <= ' ' || key[i] > '~' {
			return fmt.Errorf("%w: character %d is not", ErrInvalidKey, i+1)
		}
	}
	return nil
}

// CallerKey reads the Idempotency-Key header. ok tells that there is one, be it valid or not.
func CallerKey(header map[string][]string) (key string, ok bool, err error) {
	values := header["Idempotency-Key"]
	switch len(values) {
	case 0:
		return "", false, nil
	case 1:
		return values[0], true, ValidateKey(values[0])
	default:
		return "", true, fmt.Errorf("%w: it was sent %d times", ErrInvalidKey, len(values))
	}
}

// ExplicitKey is the claim of a caller's own key: idem:{env}:{tenant}:key:{32 hex digits}. Workflow, path and body
// have no part in it (semantics 15); compare fingerprints to find a key that is used for something else.
func ExplicitKey(env, tenant, callerKey string) string {
	var buf [192]byte
	return string(appendClaim(buf[:0], env, tenant, "key", sha256.Sum256([]byte(callerKey))))
}

// appendClaim joins the parts of a key. 32 hex digits are half of the hash: 128 bits.
func appendClaim(b []byte, env, tenant, scope string, sum [32]byte) []byte {
	b = append(b, "idem:"...)
	for _, part := range [...]string{env, tenant, scope} {
		b = append(appendName(b, part), ':')
	}
	return hex.AppendEncode(b, sum[:16])
}

// appendName escapes what could be taken for the end of a part. Names that follow semantics 46 have nothing to escape.
func appendName(b []byte, name string) []byte {
	for i := range len(name) {
		if c := name[i]; c == ':' || c == '%' || c <= ' ' || c > '~' {
			b = appendEscaped(b, c)
		} else {
			b = append(b, c)
		}
	}
	return b
}

// OutboundKey is the key sent to far sides for a claim: stable and opaque, so that names of tenants and workflows never
// leave (semantics 17). It has the form of a UUID (version 8, RFC 9562), which far sides with narrow ideas of a key accept too.
func OutboundKey(secret []byte, claim string) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("holdfast outbound key\n" + claim))
	u := mac.Sum(nil)[:16]
	u[6] = u[6]&0x0f | 0x80
	u[8] = u[8]&0x3f | 0x80
	h := hex.EncodeToString(u)
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

func appendHash(b, content []byte) []byte {
	sum := sha256.Sum256(content)
	b = strconv.AppendInt(b, int64(len(content)), 10)
	b = append(b, " sha256:"...)
	return hex.AppendEncode(b, sum[:])
}

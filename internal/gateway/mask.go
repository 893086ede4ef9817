package gateway

import (
	"bytes"
	"strings"
)

// shortestSecret keeps words that occur in any text from being blotted out.
const shortestSecret = 8

// maskWord replaces a credential, whole or with the scheme taken off, by asterisks of the same length. Providers
// echo keys that they refuse, some with the middle masked; what they mask themselves is left as it is.
func maskWord(body []byte, credential string) []byte {
	if _, rest, ok := strings.Cut(credential, " "); ok {
		credential = strings.TrimSpace(rest)
	}
	if len(credential) < shortestSecret || !bytes.Contains(body, []byte(credential)) {
		return body
	}
	return bytes.ReplaceAll(body, []byte(credential), bytes.Repeat([]byte("*"), len(credential)))
}

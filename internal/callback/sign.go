// Package callback sends signed callbacks to addresses that are checked when they are dialled.
package callback

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-ai/holdfast/internal/mutant"
)

// prefix begins a secret in the form of the Standard Webhooks specification: base64 of the key follows.
const prefix = "whsec_"

// ErrSecret says that a secret of that form is none.
var ErrSecret = errors.New("whsec_ is followed by the base64 of 24 to 64 bytes")

// Key is the key of a secret: the bytes that a whsec_ secret encodes, of any other the text itself.
func Key(secret string) ([]byte, error) {
	text, encoded := strings.CutPrefix(secret, prefix)
	if !encoded {
		return []byte(secret), nil
	}
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(key) < 24 || len(key) > 64 {
		return nil, ErrSecret
	}
	return key, nil
}

// Sign is the webhook-signature of a body: v1 and the base64 of HMAC-SHA256 over id.timestamp.body (Standard Webhooks).
func Sign(key []byte, id string, at time.Time, body []byte) string {
	mac := hmac.New(sha256.New, key)
	signed := id + "." + strconv.FormatInt(at.Unix(), 10) + "."
	if mutant.On("callback-signed-without-time") {
		signed = id + "."
	}
	mac.Write([]byte(signed))
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

package canon_test

import (
	"bytes"
	"fmt"
	"io"
	"math/big"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// oracle is the canonical form by another road: jsontext for everything but numbers, big integers for those.
func oracle(src []byte) ([]byte, error) {
	var buf bytes.Buffer
	dec := jsontext.NewDecoder(bytes.NewReader(src))
	enc := jsontext.NewEncoder(&buf)
	for {
		tok, err := dec.ReadToken()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		if tok.Kind() == '0' {
			err = enc.WriteValue(jsontext.Value(number(tok.String())))
		} else {
			err = enc.WriteToken(tok)
		}
		if err != nil {
			return nil, err
		}
	}
	v := jsontext.Value(buf.Bytes())
	err := v.Canonicalize(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false))
	return v, err
}

var numeral = regexp.MustCompile(`^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$`)

// number writes a numeral as an integer times a power of ten, then as ECMA-262 Number::toString spells it.
func number(s string) string {
	m := numeral.FindStringSubmatch(s)
	sig, _ := new(big.Int).SetString(m[2]+m[3], 10)
	exp := new(big.Int)
	if m[4] != "" {
		exp.SetString(m[4], 10)
	}
	exp.Sub(exp, big.NewInt(int64(len(m[3]))))
	if sig.Sign() == 0 {
		return "0"
	}
	for ten, rem := big.NewInt(10), new(big.Int); ; exp.Add(exp, big.NewInt(1)) {
		q, r := new(big.Int).QuoRem(sig, ten, rem)
		if r.Sign() != 0 {
			break
		}
		sig = q
	}
	digits := sig.String()
	k := len(digits)
	n := new(big.Int).Add(exp, big.NewInt(int64(k)))
	if !n.IsInt64() || n.Int64() > 21 || n.Int64() < -5 {
		e := n.Sub(n, big.NewInt(1))
		mant := digits[:1]
		if k > 1 {
			mant += "." + digits[1:]
		}
		return fmt.Sprintf("%s%se%+d", m[1], mant, e)
	}
	switch n := int(n.Int64()); {
	case n >= k:
		return m[1] + digits + strings.Repeat("0", n-k)
	case n > 0:
		return m[1] + digits[:n] + "." + digits[n:]
	default:
		return m[1] + "0." + strings.Repeat("0", -n) + digits
	}
}

// Package jsonview reads fields of JSON text in place, without decoding it.
//
// It is made for the hot path and for hostile input: nothing is allocated but for what is asked as a string, no
// recursion follows the input's depth, and text that is not JSON ends a walk instead of panicking. Where a key
// occurs twice the last one counts, as in the parsers of Python, JavaScript and Go that the providers use.
package jsonview

import (
	"bytes"
	"strconv"
)

// Value is the raw text of one JSON value without surrounding white space; nil when there is none.
type Value []byte

// Of returns the first JSON value in b. A value that breaks off is nil.
func Of(b []byte) Value {
	i := space(b, 0)
	end := skip(b, i)
	if end < 0 {
		return nil
	}
	return b[i:end]
}

// Complete reports whether b is exactly one JSON value, brackets and strings closed, with white space around it.
// It does not check every rule of the grammar: it tells a whole document from a truncated one.
func Complete(b []byte) bool {
	i := space(b, 0)
	end := skip(b, i)
	return end > i && space(b, end) == len(b)
}

// Object walks the members of an object.
type Object struct {
	b []byte
	i int
}

// Object starts a walk over v's members; the walk is empty if v is not an object. v may be cut off: the members
// that are whole are found.
func (v Value) Object() Object {
	i := space(v, 0)
	if i >= len(v) || v[i] != '{' {
		return Object{}
	}
	return Object{b: v, i: i + 1}
}

// Next returns the next member. Escapes in the key are resolved.
func (o *Object) Next() (key []byte, val Value, ok bool) {
	b, i := o.b, o.i
	for i < len(b) && (isSpace(b[i]) || b[i] == ',') {
		i++
	}
	if i >= len(b) || b[i] != '"' {
		return nil, nil, false
	}
	end := skipString(b, i)
	if end < 0 {
		return nil, nil, false
	}
	key = b[i+1 : end-1]
	i = space(b, end)
	if i >= len(b) || b[i] != ':' {
		return nil, nil, false
	}
	i = space(b, i+1)
	if end = skip(b, i); end <= i {
		return nil, nil, false
	}
	o.i = end
	if bytes.IndexByte(key, '\\') >= 0 {
		key = unescape(nil, key)
	}
	return key, b[i:end], true
}

// Array walks the elements of an array.
type Array struct {
	b []byte
	i int
}

// Array starts a walk over v's elements; the walk is empty if v is not an array.
func (v Value) Array() Array {
	i := space(v, 0)
	if i >= len(v) || v[i] != '[' {
		return Array{}
	}
	return Array{b: v, i: i + 1}
}

// Next returns the next element.
func (a *Array) Next() (Value, bool) {
	b, i := a.b, a.i
	for i < len(b) && (isSpace(b[i]) || b[i] == ',') {
		i++
	}
	end := skip(b, i)
	if end <= i {
		return nil, false
	}
	a.i = end
	return b[i:end], true
}

// Get returns the member named key, the last one if there are several.
func (v Value) Get(key string) Value {
	var found Value
	for o := v.Object(); ; {
		k, val, ok := o.Next()
		if !ok {
			return found
		}
		if string(k) == key {
			found = val
		}
	}
}

// Path follows keys through nested objects.
func (v Value) Path(keys ...string) Value {
	for _, k := range keys {
		v = v.Get(k)
	}
	return v
}

// Set reports whether v is there and not null.
func (v Value) Set() bool { return len(v) > 0 && v[0] != 'n' }

// Filled reports whether v says something: not absent, null, false, 0, "", [] or {}.
func (v Value) Filled() bool {
	if len(v) == 0 {
		return false
	}
	switch v[0] {
	case 'n', 'f':
		return false
	case '"':
		return len(v) > 2
	case '[', '{':
		return len(v) > 2 && space(v, 1) < len(v)-1
	}
	return string(v) != "0"
}

// IsString, IsObject and IsArray report v's kind.
func (v Value) IsString() bool { return len(v) > 0 && v[0] == '"' }
func (v Value) IsObject() bool { return len(v) > 0 && v[0] == '{' }
func (v Value) IsArray() bool  { return len(v) > 0 && v[0] == '[' }

// True reports whether v is the literal true.
func (v Value) True() bool { return string(v) == "true" }

// Is reports whether v is the string s.
func (v Value) Is(s string) bool {
	raw := v.raw()
	if bytes.IndexByte(raw, '\\') >= 0 {
		return v.IsString() && string(unescape(nil, raw)) == s
	}
	return v.IsString() && string(raw) == s
}

// raw returns the text between a string's quotes, escapes unresolved; nil if v is no string.
func (v Value) raw() []byte {
	if len(v) < 2 || v[0] != '"' {
		return nil
	}
	return v[1 : len(v)-1]
}

// String returns a string's value, or "" if v is no string.
func (v Value) String() string {
	raw := v.raw()
	if bytes.IndexByte(raw, '\\') >= 0 {
		return string(unescape(nil, raw))
	}
	return string(raw)
}

// Scalar returns a string's value or a number's text, else "".
func (v Value) Scalar() string {
	if v.IsString() {
		return v.String()
	}
	if len(v) > 0 && (v[0] == '-' || v[0] >= '0' && v[0] <= '9') {
		return string(v)
	}
	return ""
}

// Offset returns where v begins in b, the text that it was read from.
func (v Value) Offset(b []byte) int { return cap(b) - cap(v) } // both are slices of one array and reach to its end

// AppendTo appends a string's value to dst.
func (v Value) AppendTo(dst []byte) []byte { return unescape(dst, v.raw()) }

// Int returns a number of the range of int64, truncated, or -1.
func (v Value) Int() int64 {
	if len(v) == 0 || v[0] < '0' || v[0] > '9' {
		return -1
	}
	n := int64(0)
	for i, c := range v {
		if c < '0' || c > '9' || i > 17 {
			f, err := strconv.ParseFloat(string(v), 64)
			if err != nil || f >= 1<<63 {
				return -1
			}
			return int64(f)
		}
		n = n*10 + int64(c-'0')
	}
	return n
}

package embed

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
)

// maxHeader bounds the header of a tensors' file, in bytes; one of a model with three tensors has a few hundred.
const maxHeader = 1 << 20

// tensors is an open file of the safetensors format: the length of a JSON header in eight bytes, the header, the numbers.
type tensors struct {
	f      *os.File
	byName map[string]*tensor
	sum    [32]byte // of the header and of a sample of the numbers
}

// tensor is a table of numbers in a file.
type tensor struct {
	f     io.ReaderAt
	dtype string
	shape []int64
	from  int64 // in the file
	size  int64 // in bytes
}

// widths are the bytes of a number.
var widths = map[string]int{"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I8": 1, "I16": 2, "I32": 4, "I64": 8, "U8": 1, "U16": 2, "U32": 4}

func openTensors(path string) (*tensors, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	t := &tensors{f: f, byName: map[string]*tensor{}}
	if err := t.read(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return t, nil
}

func (t *tensors) read() error {
	info, err := t.f.Stat()
	if err != nil {
		return err
	}
	var length [8]byte
	if _, err := t.f.ReadAt(length[:], 0); err != nil {
		return fmt.Errorf("it is too short for a header: %w", err)
	}
	n := binary.LittleEndian.Uint64(length[:])
	if n > maxHeader || int64(n)+8 > info.Size() {
		return fmt.Errorf("its header would have %d bytes", n)
	}
	header := make([]byte, n)
	if _, err := t.f.ReadAt(header, 8); err != nil {
		return err
	}
	var entries map[string]json.RawMessage
	if err := json.Unmarshal(header, &entries); err != nil {
		return fmt.Errorf("header: %w", err)
	}
	for name, raw := range entries {
		if name == "__metadata__" {
			continue
		}
		if t.byName[name], err = t.entry(raw, int64(n)+8, info.Size()); err != nil {
			return fmt.Errorf("%q: %w", name, err)
		}
	}
	return t.sample(header, info.Size())
}

// entry reads where a tensor stands, and whether it does.
func (t *tensors) entry(raw []byte, base, fileSize int64) (*tensor, error) {
	var e struct {
		Dtype   string   `json:"dtype"`
		Shape   []int64  `json:"shape"`
		Offsets [2]int64 `json:"data_offsets"`
	}
	if err := json.Unmarshal(raw, &e); err != nil {
		return nil, err
	}
	width := widths[e.Dtype]
	if width == 0 {
		return nil, fmt.Errorf("numbers of type %q are not read", e.Dtype)
	}
	size := int64(width)
	for _, n := range e.Shape {
		// No product overflows that stays below the file's size.
		if n < 0 || n > 0 && size > fileSize/n {
			return nil, fmt.Errorf("the shape %v does not fit into the file", e.Shape)
		}
		size *= n
	}
	from, to := e.Offsets[0], e.Offsets[1]
	if from < 0 || to < from || to > fileSize-base || to-from != size {
		return nil, fmt.Errorf("the bytes from %d to %d are none of %v numbers", from, to, e.Shape)
	}
	return &tensor{f: t.f, dtype: e.Dtype, shape: e.Shape, from: base + from, size: size}, nil
}

// sample makes a sum that tells this file from another model's, without reading all of one that may have gigabytes.
func (t *tensors) sample(header []byte, size int64) error {
	h := sha256.New()
	h.Write(header)
	const parts, part = 64, 4096
	buf := make([]byte, part)
	for i := range int64(parts) {
		n, err := t.f.ReadAt(buf, size/parts*i)
		if err != nil && err != io.EOF {
			return err
		}
		h.Write(buf[:n])
	}
	h.Sum(t.sum[:0])
	return nil
}

func (t *tensor) width() int { return widths[t.dtype] }

// row reads a table's row, raw and into.
func (t *tensor) row(i int64, raw []byte, into []float32) error {
	if _, err := t.f.ReadAt(raw, t.from+i*int64(len(raw))); err != nil {
		return err
	}
	for k := range into {
		into[k] = t.number(raw[k*t.width():])
	}
	return nil
}

// floats reads a list of n numbers or more.
func (t *tensor) floats(n int) ([]float32, error) {
	raw, err := t.list(n)
	if err != nil {
		return nil, err
	}
	out := make([]float32, len(raw)/t.width())
	for i := range out {
		out[i] = t.number(raw[i*t.width():])
	}
	return out, nil
}

// integers reads a list of n whole numbers or more.
func (t *tensor) integers(n int) ([]int64, error) {
	raw, err := t.list(n)
	if err != nil {
		return nil, err
	}
	out := make([]int64, len(raw)/t.width())
	for i := range out {
		switch at := raw[i*t.width():]; t.dtype {
		case "I64":
			out[i] = int64(binary.LittleEndian.Uint64(at))
		case "I32":
			out[i] = int64(int32(binary.LittleEndian.Uint32(at)))
		case "U32":
			out[i] = int64(binary.LittleEndian.Uint32(at))
		default:
			return nil, fmt.Errorf("numbers of type %q are none of rows", t.dtype)
		}
	}
	return out, nil
}

// maxList bounds a list that is held in memory, in bytes: of four million tokens.
const maxList = 32 << 20

func (t *tensor) list(n int) ([]byte, error) {
	if len(t.shape) != 1 || t.shape[0] < int64(n) || t.size > maxList {
		return nil, fmt.Errorf("the shape %v is none of %d tokens", t.shape, n)
	}
	raw := make([]byte, t.size)
	_, err := t.f.ReadAt(raw, t.from)
	return raw, err
}

// number reads the number at the beginning of b.
func (t *tensor) number(b []byte) float32 {
	switch t.dtype {
	case "F64":
		return float32(math.Float64frombits(binary.LittleEndian.Uint64(b)))
	case "F32":
		return math.Float32frombits(binary.LittleEndian.Uint32(b))
	case "BF16":
		return math.Float32frombits(uint32(binary.LittleEndian.Uint16(b)) << 16)
	case "F16":
		return half(binary.LittleEndian.Uint16(b))
	case "I8":
		return float32(int8(b[0]))
	}
	return float32(math.NaN()) // no vector has a part of another type: unit refuses it
}

// half reads a number of IEEE 754's binary16.
func half(h uint16) float32 {
	sign, exp, frac := uint32(h>>15)<<31, int(h>>10&31), uint32(h&1023)
	switch exp {
	case 31:
		return math.Float32frombits(sign | 0xff<<23 | frac<<13)
	case 0:
		v := float32(frac) / (1 << 24)
		if sign != 0 {
			return -v
		}
		return v
	}
	return math.Float32frombits(sign | uint32(exp+112)<<23 | frac<<13)
}

package canon

// Append is [Encoder.Append] for one document, without rules.
func Append(dst, src []byte) ([]byte, error) {
	var e Encoder
	return e.Append(dst, src, nil)
}

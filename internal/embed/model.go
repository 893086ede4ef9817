package embed

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/holdfast-ai/holdfast/cache"
)

// Bounds of the files of a model, which is somebody else's work. The vectors' file has none: it is read row by row.
const (
	maxConfig    = 1 << 20
	maxTokenizer = 128 << 20
	maxTokens    = 512      // of a text; what is behind them does not count, as in model2vec itself
	maxModelText = 32 << 10 // of a text, in bytes
)

// Model is a model2vec model: a text's vector is the mean of its tokens' vectors, which stand in a table. They are read from the file as they
// are needed, so that a model takes the memory of its vocabulary.
type Model struct {
	tokens  *tokenizer
	rows    *tensor
	weights []float32 // of each token, nil: all the same
	mapping []int64   // of tokens to rows, nil: each has its own
	space   string
}

// OpenModel opens the folder of a model: model.safetensors, tokenizer.json and config.json, as model2vec saves them. The error is
// [ErrModel].
func OpenModel(folder string) (*Model, error) {
	m := &Model{}
	text, err := readFile(filepath.Join(folder, "tokenizer.json"), maxTokenizer)
	if err != nil {
		return nil, err
	}
	if m.tokens, err = parseTokenizer(text); err != nil {
		return nil, fmt.Errorf("%w: tokenizer.json: %w", ErrModel, err)
	}
	if err := readConfig(filepath.Join(folder, "config.json")); err != nil {
		return nil, err
	}
	file, err := openTensors(filepath.Join(folder, "model.safetensors"))
	if err != nil {
		return nil, fmt.Errorf("%w: model.safetensors: %w", ErrModel, err)
	}
	if err := m.tables(file); err != nil {
		return nil, fmt.Errorf("%w: model.safetensors: %w", ErrModel, errors.Join(err, file.f.Close()))
	}
	sum := sha256.Sum256(text)
	m.space = "model2vec 1 " + hex.EncodeToString(sum[:8]) + " " + hex.EncodeToString(file.sum[:8])
	return m, nil
}

// readConfig asks whether the model is one at all. Nothing else in it counts: vectors are made unit vectors in any case.
func readConfig(path string) error {
	text, err := readFile(path, maxConfig)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	var conf struct {
		Type string `json:"model_type"`
	}
	if err == nil {
		err = json.Unmarshal(text, &conf)
	}
	switch {
	case err != nil:
		return fmt.Errorf("%w: config.json: %w", ErrModel, err)
	case conf.Type != "" && conf.Type != "model2vec":
		return fmt.Errorf("%w: config.json says that it is of type %q", ErrModel, conf.Type)
	}
	return nil
}

func readFile(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrModel, err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("%s is larger than %d bytes", filepath.Base(path), most)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrModel, err)
	}
	return text, nil
}

// tables finds the tensors and holds them to each other and to the vocabulary.
func (m *Model) tables(file *tensors) (err error) {
	if m.rows = file.byName["embeddings"]; m.rows == nil {
		return errors.New("it has no tensor \"embeddings\"; is it a model2vec model?")
	}
	size := m.tokens.size()
	switch shape := m.rows.shape; {
	case len(shape) != 2, shape[1] == 0, shape[1] > cache.MaxDimensions:
		return fmt.Errorf("the shape of embeddings is %v, not tokens × at most %d dimensions", shape, cache.MaxDimensions)
	}
	if t := file.byName["weights"]; t != nil {
		if m.weights, err = t.floats(size); err != nil {
			return fmt.Errorf("weights: %w", err)
		}
	}
	if t := file.byName["mapping"]; t != nil {
		if m.mapping, err = t.integers(size); err != nil {
			return fmt.Errorf("mapping: %w", err)
		}
		for _, row := range m.mapping {
			if row < 0 || row >= m.rows.shape[0] {
				return fmt.Errorf("mapping leads to row %d of %d", row, m.rows.shape[0])
			}
		}
		return nil
	}
	if m.rows.shape[0] < int64(size) {
		return fmt.Errorf("embeddings has %d rows for %d tokens", m.rows.shape[0], size)
	}
	return nil
}

// Space implements [Embedder].
func (m *Model) Space() string { return m.space }

// Local implements [Embedder].
func (m *Model) Local() bool { return true }

// Embed implements [Embedder]. A text of which the model knows no part has no vector.
func (m *Model) Embed(ctx context.Context, text string) ([]float32, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(text) > maxModelText {
		text = text[:maxModelText]
	}
	sum := make([]float32, m.rows.shape[1])
	row, raw := make([]float32, len(sum)), make([]byte, len(sum)*m.rows.width())
	for _, id := range m.tokens.encode(text, maxTokens) {
		at, weight := int64(id), float32(1)
		if m.mapping != nil {
			at = m.mapping[id]
		}
		if m.weights != nil {
			weight = m.weights[id]
		}
		if err := m.rows.row(at, raw, row); err != nil {
			return nil, fmt.Errorf("%w: model.safetensors: %w", ErrModel, err)
		}
		for i, x := range row {
			sum[i] += weight * x
		}
	}
	return unit(sum)
}

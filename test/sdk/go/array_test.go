package sdk

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"google.golang.org/genai"
)

// arrayClient streams Gemini's JSON array, which no SDK asks for: a program's own HTTP client.
func arrayClient(base string) client {
	return client{name: "gemini-array", wire: "streamGenerateContent", stream: func(ctx context.Context, in call) (out answer, err error) {
		body, err := json.Marshal(map[string]any{"contents": []any{map[string]any{"role": "user", "parts": []any{map[string]any{"text": in.prompt}}}}})
		if err != nil {
			return out, err
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1beta/models/"+geminiModel+":streamGenerateContent", bytes.NewReader(body))
		if err != nil {
			return out, err
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-Goog-Api-Key", geminiKey)
		for k, v := range in.headers() {
			req.Header.Set(k, v)
		}
		res, err := httpClient().Do(req)
		if err != nil {
			return out, err
		}
		defer res.Body.Close()
		raw, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != http.StatusOK {
			return out, fmt.Errorf("status %d, %w: %s", res.StatusCode, err, raw)
		}
		var parts []*genai.GenerateContentResponse
		if err := json.Unmarshal(raw, &parts); err != nil {
			return out, err
		}
		for _, p := range parts {
			if err := out.addGemini(p); err != nil {
				return out, err
			}
		}
		return out, nil
	}}
}

package upstream

import (
	"context"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"
)

// TestCutAtEveryByte ends the connection after each prefix of an answer.
func TestCutAtEveryByte(t *testing.T) {
	for name, answer := range map[string]string{"sized": sizedAnswer, "chunked": chunkedAnswer} {
		t.Run(name, func(t *testing.T) {
			head := strings.Index(answer, "\r\n\r\n") + 4
			cut := make(chan int, 1)
			f := listen(t, func(p *peer) {
				p.request()
				p.say(answer[:<-cut])
			})
			client := newClient(t, Config{})
			for n := range len(answer) {
				cut <- n
				_, body, err := call(t.Context(), client, post(f, "{}"))
				phase := PhaseHead
				if n >= head {
					phase = PhaseBody
				}
				fault := wantFault(t, err, phase, All)
				if !errors.Is(fault, io.ErrUnexpectedEOF) || fault.Timeout || !strings.HasPrefix("hello", body) {
					t.Fatalf("cut at %d: %q, %v", n, body, err)
				}
			}
			if sent := f.requests.Load(); sent != int64(len(answer)) {
				t.Errorf("%d requests for %d calls", sent, len(answer))
			}
		})
	}
}

// TestSplitAtEveryByte has each answer come in two pieces, over a connection that is no socket.
func TestSplitAtEveryByte(t *testing.T) {
	for _, answer := range []string{sizedAnswer, chunkedAnswer} {
		split := make(chan int, 1)
		client, f := piped(t, Config{}, func(p *peer) {
			for {
				if _, ok := p.request(); !ok {
					return
				}
				n := <-split
				p.say(answer[:n])
				p.say(answer[n:])
			}
		})
		for n := range len(answer) {
			split <- n
			if _, body, err := call(t.Context(), client, post(f, "{}")); err != nil || body != "hello" {
				t.Fatalf("split at %d: %q, %v", n, body, err)
			}
		}
		if f.conns.Load() != 1 {
			t.Errorf("%d connections", f.conns.Load())
		}
		client.CloseIdle()
	}
}

func TestReset(t *testing.T) {
	for _, answer := range []string{sizedAnswer, chunkedAnswer, "HTTP/1.1 200 OK\r\n\r\nuntil the close"} {
		head := strings.Index(answer, "\r\n\r\n") + 4
		for _, n := range []int{0, head - 3, head + 1} {
			seen := make(chan struct{})
			f := listen(t, func(p *peer) {
				p.request()
				p.say(answer[:n])
				if n > head {
					<-seen
				}
				p.reset()
			})
			resp, err := newClient(t, Config{}).Do(t.Context(), post(f, "{}"))
			phase := PhaseHead
			if n > head {
				phase = PhaseBody
				close(seen)
				_, err = io.ReadAll(resp.Body)
			}
			if fault := wantFault(t, err, phase, All); !errors.Is(fault, syscall.ECONNRESET) {
				t.Errorf("reset at %d of %q: %v", n, answer, err)
			}
		}
	}
}

func TestMalformedAnswers(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	const chunks = ok + "Transfer-Encoding: chunked\r\n\r\n"
	cases := []struct {
		name, answer string
		want         error
	}{
		{"another protocol", "SSH-2.0-OpenSSH", ErrMalformed},
		{"HTTP/2", "HTTP/2 200 OK\r\n\r\n", ErrMalformed},
		{"HTTP/1.2", "HTTP/1.2 200 OK\r\n\r\n", ErrMalformed},
		{"HTTP/1.10", "HTTP/1.10 200 OK\r\n\r\n", ErrMalformed},
		{"empty line first", "\r\n" + sizedAnswer, ErrMalformed},
		{"status of two digits", "HTTP/1.1 20 OK\r\n\r\n", ErrMalformed},
		{"status with a sign", "HTTP/1.1 +20 OK\r\n\r\n", ErrMalformed},
		{"status below 100", "HTTP/1.1 099 OK\r\n\r\n", ErrMalformed},
		{"no status", "HTTP/1.1\r\n\r\n", ErrMalformed},
		{"control in the reason", "HTTP/1.1 200 O\x00K\r\n\r\n", ErrMalformed},
		{"switched protocol", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", ErrMalformed},
		{"bare line feeds", "HTTP/1.1 200 OK\nContent-Length: 0\n\n", ErrMalformed},
		{"one bare line feed", ok + "X: y\nContent-Length: 0\r\n\r\n", ErrMalformed},
		{"bare carriage return", ok + "X: y\rContent-Length: 0\r\n\r\n", ErrMalformed},
		{"folded line", ok + "X: y\r\n z\r\n\r\n", ErrMalformed},
		{"no colon", ok + "X\r\n\r\n", ErrMalformed},
		{"empty name", ok + ": y\r\n\r\n", ErrMalformed},
		{"space before the colon", ok + "Content-Length : 0\r\n\r\n", ErrMalformed},
		{"both lengths", ok + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", ErrMalformed},
		{"two lengths", ok + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", ErrMalformed},
		{"list of lengths", ok + "Content-Length: 3, 3\r\n\r\nabc", ErrMalformed},
		{"negative length", ok + "Content-Length: -1\r\n\r\n", ErrMalformed},
		{"signed length", ok + "Content-Length: +1\r\n\r\na", ErrMalformed},
		{"empty length", ok + "Content-Length:\r\n\r\n", ErrMalformed},
		{"hex length", ok + "Content-Length: 0x1\r\n\r\na", ErrMalformed},
		{"huge length", ok + "Content-Length: 9223372036854775808\r\n\r\n", ErrMalformed},
		{"chunked twice", ok + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", ErrMalformed},
		{"gzip, chunked", ok + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", ErrMalformed},
		{"identity", ok + "Transfer-Encoding: identity\r\n\r\n", ErrMalformed},
		{"chunked in HTTP/1.0", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", ErrMalformed},
		{"empty chunk size", chunks + "\r\n\r\n", ErrMalformed},
		{"negative chunk size", chunks + "-1\r\n\r\n", ErrMalformed},
		{"prefixed chunk size", chunks + "0x1\r\na\r\n", ErrMalformed},
		{"chunk size with a space before it", chunks + " 1\r\na\r\n", ErrMalformed},
		{"chunk size without CR", chunks + "1\na\r\n", ErrMalformed},
		{"huge chunk size", chunks + "10000000000000000\r\na", ErrMalformed},
		{"CR in an extension", chunks + "1;a\rb\r\na\r\n", ErrMalformed},
		{"junk after the chunk size", chunks + "1 2\r\na\r\n", ErrMalformed},
		{"long extension", chunks + "1;" + strings.Repeat("x", maxSizeLine), ErrMalformed},
		{"many long extensions", chunks + strings.Repeat("1;"+strings.Repeat("x", 4000)+"\r\na\r\n", 8), ErrMalformed},
		{"chunk longer than its size", chunks + "1\r\nab\r\n", ErrMalformed},
		{"folded trailer", chunks + "0\r\nX: y\r\n z\r\n\r\n", ErrMalformed},
		{"trailer with a bare line feed", chunks + "0\r\nX: y\n\r\n", ErrMalformed},
		{"large head", ok + "X: " + strings.Repeat("x", 64<<10), ErrTooLarge},
		{"many informational answers", strings.Repeat("HTTP/1.1 103 Early Hints\r\nX: "+strings.Repeat("x", 100)+"\r\n\r\n", 600), ErrTooLarge},
		{"large trailer", chunks + "0\r\nX: " + strings.Repeat("x", 64<<10), ErrTooLarge},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			// Each must fail by itself: at the end of the connection it would be io.ErrUnexpectedEOF.
			f := listen(t, func(p *peer) {
				p.request()
				p.say(c.answer)
			})
			_, _, err := call(t.Context(), newClient(t, Config{}), post(f, "{}"))
			var fault *Error
			if !errors.As(err, &fault) || !errors.Is(err, c.want) || fault.Sent != All {
				t.Fatalf("got %v, want %v", err, c.want)
			}
		})
	}
}

func TestLargeHeadWithinTheLimit(t *testing.T) {
	value := strings.Repeat("x", 60<<10)
	f := listen(t, always("HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nX: "+value+"\r\nContent-Length: 2\r\n\r\nhi"))
	client := newClient(t, Config{})
	for range 2 {
		resp, body, err := call(t.Context(), client, post(f, ""))
		if err != nil || body != "hi" || resp.Header.Get("X") != value {
			t.Fatalf("got %q, %v", body, err)
		}
	}
	if f.conns.Load() != 1 {
		t.Errorf("%d connections", f.conns.Load())
	}
}

// TestLargeBodies reads across every buffer size and path: direct reads, copies, chunks of odd lengths.
func TestLargeBodies(t *testing.T) {
	data := strings.Repeat("0123456789abcdef!", 40_000)
	for _, piece := range []int{1, 7, 4095, 4096, 4097, 40_000} {
		var chunked strings.Builder
		chunked.WriteString("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
		text := data[:min(len(data), piece*5_000)]
		for rest := text; rest != ""; {
			n := min(piece, len(rest))
			writeChunk(&chunked, rest[:n])
			rest = rest[n:]
		}
		writeChunk(&chunked, "")
		f := listen(t, always(chunked.String()))
		client := newClient(t, Config{})
		for _, size := range []int{1, 100, 4096, 50_000} {
			resp, err := client.Do(t.Context(), post(f, ""))
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			if _, err := io.CopyBuffer(&got, struct{ io.Reader }{resp.Body}, make([]byte, size)); err != nil || got.String() != text {
				t.Fatalf("chunks of %d, reads of %d: %d bytes of %d, %v", piece, size, got.Len(), len(text), err)
			}
		}
		if f.conns.Load() != 1 {
			t.Errorf("chunks of %d: %d connections", piece, f.conns.Load())
		}
	}
}

func writeChunk(w *strings.Builder, data string) {
	const hex = "0123456789abcdef"
	n := len(data)
	for shift := 16; shift >= 0; shift -= 4 {
		w.WriteByte(hex[n>>shift&15])
	}
	w.WriteString("\r\n" + data + "\r\n")
}

// TestBuffered shows the rule that callers forward by: what lies here is said to, however it is framed.
func TestBuffered(t *testing.T) {
	more := make(chan struct{})
	client, f := piped(t, Config{}, func(p *peer) {
		p.request()
		p.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n3\r\ntwo\r\n5\r\nth")
		<-more
		p.say("ree\r\n0\r\n\r\n")
		p.request()
	})
	defer client.CloseIdle()
	resp, err := client.Do(context.Background(), post(f, ""))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	flushed := false
	for p := make([]byte, 3); ; {
		n, err := resp.Body.Read(p)
		got = append(got, string(p[:n]))
		if resp.Body.Buffered() == 0 && !flushed {
			got = append(got, "flush")
			close(more)
			flushed = true
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if text := strings.Join(got, "|"); text != "one|two|th|flush|ree" {
		t.Errorf("got %s", text)
	}
	if resp.Body.Buffered() != 0 {
		t.Error("something is buffered after the end")
	}
}

// TestBufferGrowsAndShrinks: a burst takes the large buffer, a calm stream gives it back.
func TestBufferGrowsAndShrinks(t *testing.T) {
	burst := strings.Repeat("x", 3*smallBuffer)
	more := make(chan string)
	client, f := piped(t, Config{}, func(p *peer) {
		p.request()
		p.say("HTTP/1.1 200 OK\r\n\r\n")
		for text := range more {
			p.say(text)
		}
	})
	defer client.CloseIdle()
	resp, err := client.Do(t.Context(), post(f, ""))
	if err != nil {
		t.Fatal(err)
	}
	x := resp.Body.(*exchange)
	for _, step := range []struct {
		text string
		size int
	}{{"calm", smallBuffer}, {burst, largeBuffer}, {"calm", largeBuffer}, {"calm", smallBuffer}, {burst, largeBuffer}} {
		more <- step.text
		got := make([]byte, len(step.text))
		for n := 0; n < len(got); { // small reads go through the buffer
			m, err := resp.Body.Read(got[n:min(n+1000, len(got))])
			if n += m; err != nil {
				t.Fatal(err)
			}
		}
		if string(got) != step.text || len(x.source.buf) != step.size {
			t.Errorf("%d bytes in a buffer of %d, want %d", len(got), len(x.source.buf), step.size)
		}
	}
	close(more)
	if _, err := resp.Body.Read(make([]byte, 1)); err != io.EOF {
		t.Error(err)
	}
}

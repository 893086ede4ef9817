package cache_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/cache"
)

// vector is a unit vector of two dimensions at an angle whose cosine to the first axis is given.
func vector(t testing.TB, cosine float64) cache.Vector {
	t.Helper()
	v, err := cache.Quantize([]float32{float32(cosine), float32(math.Sqrt(1 - cosine*cosine))})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// asker stores and looks up as a gateway does.
type asker struct {
	t     testing.TB
	index cache.Index
	now   time.Time
}

func (a *asker) question(s cache.Scope, text string) cache.Question {
	return cache.Ask(&s, []byte("rest"), text)
}

func (a *asker) put(s cache.Scope, id, text string, v cache.Vector, b cache.Bounds) []*cache.Entry {
	q := a.question(s, text)
	return a.index.Put(&cache.Entry{Intent: id, Tenant: s.Tenant, Workflow: s.Workflow, Kind: cache.Semantic, Key: q.SemanticKey("space", a.now),
		Partition: q.Partition, Vector: v, Made: a.now, Expires: a.now.Add(time.Hour)}, b)
}

func (a *asker) find(s cache.Scope, text string, v cache.Vector) (id string, why cache.Reason) {
	q := a.question(s, text)
	e, why := a.index.Candidate(s.Tenant, s.Workflow, q.Partition, q.SemanticKey("space", a.now), a.now)
	if why == cache.Found {
		_, why = cache.Confirm(e, v, 0.95)
	}
	if why != cache.Found {
		return "", why
	}
	return e.Intent, why
}

var chat = cache.Scope{Env: "production", Tenant: "a", Workflow: "chat", Class: "a", Provider: "openai", Model: "gpt-5"}

// TestBR061 has a model that finds any two texts alike: what is another question is a miss all the same.
func TestBR061(t *testing.T) {
	first, second := vector(t, 1), vector(t, 0.97)
	pairs := append(pairsOf(t, "testdata/differ.txt"), [][2]string{{"enable 2FA", "disable 2FA"}, {"refund order 1041", "refund order 1014"},
		{"price in EUR", "price in USD"}, {"can I take it with alcohol", "can't I take it without alcohol"}}...)
	for i, p := range pairs {
		a := asker{t: t, now: noon}
		a.put(chat, fmt.Sprint(i), p[0], first, cache.Bounds{})
		if id, why := a.find(chat, p[1], second); why != cache.Differs {
			t.Errorf("%q is answered by %q's (%q, %q)", p[1], p[0], id, why)
		}
		if id, why := a.find(chat, "  "+p[0]+" ", second); id != fmt.Sprint(i) {
			t.Errorf("%q with spaces around it is not found: %q", p[0], why)
		}
	}
}

// TestBR064 asks the same words as everybody else would.
func TestBR064(t *testing.T) {
	const text = "show my account balance"
	a := asker{t: t, now: noon}
	mine := chat
	mine.User = "u1"
	a.put(mine, "mine", text, vector(t, 1), cache.Bounds{})
	if id, _ := a.find(mine, text, vector(t, 1)); id != "mine" {
		t.Fatal("not found by who asked first")
	}
	for name, change := range map[string]func(*cache.Scope){
		"tenant": func(s *cache.Scope) { s.Tenant = "b" }, "user": func(s *cache.Scope) { s.User = "u2" }, "env": func(s *cache.Scope) { s.Env = "staging" },
		"workflow": func(s *cache.Scope) { s.Workflow = "other" }, "class": func(s *cache.Scope) { s.Class = "b" }, "provider": func(s *cache.Scope) { s.Provider = "x" },
		"model": func(s *cache.Scope) { s.Model = "gpt-4" }, "prompt": func(s *cache.Scope) { s.Prompt = "p" },
	} {
		other := mine
		change(&other)
		if id, _ := a.find(other, text, vector(t, 1)); id != "" {
			t.Errorf("another %s is given the answer", name)
		}
		if a.question(mine, text).Partition == a.question(other, text).Partition {
			t.Errorf("another %s is of the same partition", name)
		}
	}
	// Fields do not run into each other, and the rest counts.
	if x, y := (cache.Scope{Env: "ab", Tenant: "c"}), (cache.Scope{Env: "a", Tenant: "bc"}); a.question(x, text).Partition == a.question(y, text).Partition {
		t.Error("two lists of fields make one partition")
	}
	if cache.Ask(&mine, []byte("a"), text).Partition == cache.Ask(&mine, []byte("b"), text).Partition {
		t.Error("what else is in a request does not count")
	}
	q := a.question(mine, text)
	if q.SemanticKey("one model", noon) == q.SemanticKey("another", noon) {
		t.Error("vectors of two models meet")
	}
}

func TestReasons(t *testing.T) {
	a := asker{t: t, now: noon}
	if _, why := a.find(chat, "x", vector(t, 1)); why != cache.Empty {
		t.Errorf("nothing stored: %q", why)
	}
	a.put(chat, "1", "x", vector(t, 1), cache.Bounds{})
	for _, c := range []struct {
		text string
		v    cache.Vector
		want cache.Reason
	}{{"y", vector(t, 1), cache.Differs}, {"x", vector(t, 0.9), cache.Dissimilar}, {"x", cache.Vector{}, cache.NoVector}, {"x", vector(t, 0.96), cache.Found}} {
		if _, why := a.find(chat, c.text, c.v); why != c.want {
			t.Errorf("%q: %q, want %q", c.text, why, c.want)
		}
	}
	other := chat
	other.Model = "other"
	if _, why := a.find(other, "x", vector(t, 1)); why != cache.Empty {
		t.Errorf("another partition of the workflow: %q", why)
	}
	a.now = noon.Add(time.Hour)
	if _, why := a.find(chat, "x", vector(t, 1)); why != cache.Expired {
		t.Errorf("at its end: %q", why)
	}
	if gone := a.index.Sweep(a.now); len(gone) != 1 || gone[0].Intent != "1" {
		t.Errorf("swept %v", gone)
	}
	if n, size := a.index.Size("", ""); n != 0 || size != 0 {
		t.Errorf("%d entries of %d bytes are left", n, size)
	}
}

func TestBounds(t *testing.T) {
	a := asker{t: t, now: noon}
	var gone []string
	for i := range 10 {
		a.now = noon.Add(time.Duration(i) * time.Second)
		for _, e := range a.put(chat, fmt.Sprint(i), fmt.Sprintf("question %d", i), vector(t, 1), cache.Bounds{Entries: 3}) {
			gone = append(gone, e.Intent)
		}
	}
	if fmt.Sprint(gone) != "[0 1 2 3 4 5 6]" {
		t.Errorf("%v had to go", gone)
	}
	other := chat
	other.Tenant = "b"
	if gone := a.put(other, "b", "question", vector(t, 1), cache.Bounds{Entries: 3}); gone != nil {
		t.Errorf("another tenant's entry costs %v", gone)
	}
	if gone := a.put(other, "c", "another", vector(t, 1), cache.Bounds{Bytes: 700}); len(gone) != 1 || gone[0].Intent != "b" {
		t.Errorf("a bound of bytes costs %v", gone)
	}
	if n, _ := a.index.Size("a", "chat"); n != 3 {
		t.Errorf("%d entries", n)
	}
}

// TestOrder puts the answers to one question in every order: the youngest stays.
func TestOrder(t *testing.T) {
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}, {2, 2, 1}} {
		a := asker{t: t}
		left := map[string]bool{}
		for _, i := range order {
			a.now = noon.Add(time.Duration(i) * time.Second)
			left[fmt.Sprint(i)] = true
			for _, e := range a.put(chat, fmt.Sprint(i), "x", vector(t, 1), cache.Bounds{}) {
				delete(left, e.Intent)
			}
		}
		if id, _ := a.find(chat, "x", vector(t, 1)); id != "2" || len(left) != 1 || !left["2"] {
			t.Errorf("%v: %q answers, %v have a row", order, id, left)
		}
		if n, _ := a.index.Size("", ""); n != 1 {
			t.Errorf("%v: %d entries", order, n)
		}
	}
}

func TestPurge(t *testing.T) {
	fill := func() *asker {
		a := &asker{t: t, now: noon}
		for _, tenant := range []string{"a", "b"} {
			for _, workflow := range []string{"chat", "copy"} {
				s := cache.Scope{Tenant: tenant, Workflow: workflow}
				a.put(s, tenant+workflow, "x", vector(t, 1), cache.Bounds{})
				a.put(s, tenant+workflow, "y", vector(t, 1), cache.Bounds{})
			}
		}
		return a
	}
	for _, c := range []struct {
		tenant, workflow string
		want             int
	}{{"", "", 8}, {"a", "", 4}, {"", "copy", 4}, {"b", "chat", 2}, {"c", "", 0}} {
		a := fill()
		if n := a.index.Purge(c.tenant, c.workflow); n != c.want {
			t.Errorf("purge %q %q: %d", c.tenant, c.workflow, n)
		}
		if n, _ := a.index.Size("", ""); n != 8-c.want {
			t.Errorf("purge %q %q leaves %d", c.tenant, c.workflow, n)
		}
		a.put(chat, "new", "x", vector(t, 1), cache.Bounds{})
	}
	a := fill()
	if n := a.index.Drop("a", "chat", "achat"); n != 2 {
		t.Errorf("dropped %d", n)
	}
	if n := a.index.Drop("a", "chat", "achat") + a.index.Drop("x", "y", "z"); n != 0 {
		t.Errorf("dropped %d more", n)
	}
	if n, _ := a.index.Size("", ""); n != 6 {
		t.Errorf("%d are left", n)
	}
}

func TestConcurrentUse(t *testing.T) {
	a := asker{t: t, now: noon}
	var all sync.WaitGroup
	v := vector(t, 1)
	for w := range 8 {
		all.Go(func() {
			s := cache.Scope{Tenant: fmt.Sprint(w % 2), Workflow: "w"}
			for i := range 200 {
				text := fmt.Sprintf("question %d", i%40)
				a.put(s, fmt.Sprint(w, i), text, v, cache.Bounds{Entries: 30})
				a.find(s, text, v)
				if i%50 == 0 {
					a.index.Purge(s.Tenant, "")
					a.index.Sweep(noon)
				}
			}
		})
	}
	all.Wait()
	if n, size := a.index.Size("", ""); n > 60 || n > 0 && size <= 0 {
		t.Errorf("%d entries of %d bytes", n, size)
	}
}

// TestQuantize compares cosines of bytes with those of the numbers themselves.
func TestQuantize(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, dims := range []int{1, 3, 256, 1536, 8192} {
		for range 20 {
			a, b := make([]float32, dims), make([]float32, dims)
			for i := range a {
				a[i] = float32(r.NormFloat64())
				b[i] = a[i] + float32(r.NormFloat64()*0.4)
			}
			va, erra := cache.Quantize(a)
			vb, errb := cache.Quantize(b)
			if erra != nil || errb != nil {
				t.Fatal(erra, errb)
			}
			if got, want := va.Cosine(vb), exactCosine(a, b); math.Abs(got-want) > 0.001*math.Max(1, 30/math.Sqrt(float64(dims))) {
				t.Errorf("%d dimensions: %v, not %v", dims, got, want)
			}
			if got := va.Cosine(va); math.Abs(got-1) > 1e-6 {
				t.Errorf("a vector is %v to itself", got)
			}
		}
	}
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, bad := range [][]float32{nil, {}, {0, 0}, {1, nan}, {nan, 1}, {inf}, {-inf, 1}, make([]float32, cache.MaxDimensions+1)} {
		if _, err := cache.Quantize(bad); !errors.Is(err, cache.ErrVector) {
			t.Errorf("%.3v: %v", bad, err)
		}
	}
	if got := vector(t, 1).Cosine(cache.Vector{Steps: []int8{1}, Norm: 1}); got != -1 {
		t.Errorf("vectors of two lengths are %v to each other", got)
	}
}

func exactCosine(a, b []float32) float64 {
	var ab, aa, bb float64
	for i := range a {
		ab += float64(a[i]) * float64(b[i])
		aa += float64(a[i]) * float64(a[i])
		bb += float64(b[i]) * float64(b[i])
	}
	return ab / math.Sqrt(aa*bb)
}

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
	a.put(mine, "mine", text, vector(t, 1), cache.Bounds{})
	if id, _ := a.find(mine, text, vector(t, 1)); id != "mine" {
		t.Fatal("not found by who asked first")
	}
	for name, change := range map[string]func(*cache.Scope){
		"tenant": func(s *cache.Scope) { s.Tenant = "b" }, "env": func(s *cache.Scope) { s.Env = "staging" },
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
	if n, size, shelves := a.index.Size(); n != 0 || size != 0 || shelves != 0 {
		t.Errorf("%d entries of %d bytes on %d shelves are left", n, size, shelves)
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
	if n, _, shelves := a.index.Size(); n != 4 || shelves != 2 {
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
		if n, _, _ := a.index.Size(); n != 1 {
			t.Errorf("%v: %d entries", order, n)
		}
	}
}

func TestDrop(t *testing.T) {
	a := &asker{t: t, now: noon}
	for _, tenant := range []string{"a", "b"} {
		s := cache.Scope{Tenant: tenant, Workflow: "chat"}
		a.put(s, "one", "x", vector(t, 1), cache.Bounds{})
		a.put(s, "one", "y", vector(t, 1), cache.Bounds{})
		a.put(s, "two", "z", vector(t, 1), cache.Bounds{})
	}
	if gone := a.index.Drop("a", "chat", "one"); len(gone) != 2 || gone[0].Intent != "one" || gone[0].Key == gone[1].Key {
		t.Errorf("dropped %v", gone)
	}
	if gone := append(a.index.Drop("a", "chat", "one"), a.index.Drop("x", "y", "z")...); gone != nil {
		t.Errorf("dropped %v more", gone)
	}
	if n, _, _ := a.index.Size(); n != 4 {
		t.Errorf("%d are left", n)
	}
}

// TestNoEmptyShelf has as many tenants as there are credentials: what each of them leaves goes with its last entry.
func TestNoEmptyShelf(t *testing.T) {
	a := &asker{t: t, now: noon}
	for i := range 100 {
		s := cache.Scope{Tenant: fmt.Sprint(i), Workflow: "chat"}
		a.put(s, fmt.Sprint(i), "x", vector(t, 1), cache.Bounds{})
		if i%2 == 0 {
			a.index.Drop(s.Tenant, "chat", fmt.Sprint(i))
			a.index.Drop(s.Tenant, "chat", fmt.Sprint(i))
		}
	}
	if n, _, shelves := a.index.Size(); n != 50 || shelves != 50 {
		t.Errorf("%d entries on %d shelves", n, shelves)
	}
	a.put(cache.Scope{Tenant: "1", Workflow: "chat"}, "none", "x", vector(t, 1), cache.Bounds{Bytes: 1})
	a.index.Sweep(noon.Add(time.Hour))
	if n, size, shelves := a.index.Size(); n != 0 || size != 0 || shelves != 0 {
		t.Errorf("%d entries of %d bytes on %d shelves are left", n, size, shelves)
	}
	a.put(chat, "again", "x", vector(t, 1), cache.Bounds{})
	if id, why := a.find(chat, "x", vector(t, 1)); id != "again" {
		t.Errorf("behind a sweep: %q", why)
	}
}

// TestTotal fills an index from more tenants than it has room for: the oldest give way, whosever they are.
func TestTotal(t *testing.T) {
	const most, each = 100, 3
	one := asker{t: t, now: noon}
	one.put(cache.Scope{Tenant: "100", Workflow: "chat"}, "100-0", "question 0", vector(t, 1), cache.Bounds{})
	_, size, _ := one.index.Size()
	a := &asker{t: t, now: noon}
	a.index.Bytes = most * size
	listed := map[string]bool{}
	for i := range 400 {
		tenant := fmt.Sprint(100 + i%200)
		for j := range each {
			a.now = a.now.Add(time.Second)
			id := fmt.Sprintf("%s-%d", tenant, j)
			listed[id] = true
			for _, e := range a.put(cache.Scope{Tenant: tenant, Workflow: "chat"}, id, fmt.Sprintf("question %d", j), vector(t, 1), cache.Bounds{}) {
				delete(listed, e.Intent)
			}
			if n, bytes, _ := a.index.Size(); bytes > a.index.Bytes || n != len(listed) {
				t.Fatalf("%d entries of %d bytes, %d have a row", n, bytes, len(listed))
			}
			if !listed[id] {
				t.Fatalf("%s gave way, the youngest", id)
			}
		}
	}
	n, _, shelves := a.index.Size()
	if n < most*3/4 || shelves > n/each+1 {
		t.Errorf("%d entries on %d shelves", n, shelves)
	}
	for id := range listed {
		if id < "265" {
			t.Errorf("%s is there, and younger ones are not", id)
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	a := asker{t: t, now: noon}
	a.index.Bytes = 20_000 // less than they would take
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
					a.index.Drop(s.Tenant, "w", fmt.Sprint(w, i))
					a.index.Sweep(noon.Add(time.Duration(i/100) * time.Hour))
				}
			}
		})
	}
	all.Wait()
	if n, size, _ := a.index.Size(); n > 60 || n > 0 && size <= 0 {
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

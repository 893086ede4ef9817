package cache_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/cache"
)

func random(r *rand.Rand, dims int) cache.Vector {
	v := make([]float32, dims)
	for i := range v {
		v[i] = float32(r.NormFloat64())
	}
	out, _ := cache.Quantize(v)
	return out
}

// BenchmarkFind looks one question up among 10,000 and confirms it by its vector.
func BenchmarkFind(b *testing.B) {
	for _, dims := range []int{256, 1536} {
		b.Run(fmt.Sprint(dims), func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 2))
			var index cache.Index
			var vectors []cache.Vector
			var keys []cache.Key
			var partition [32]byte
			for i := range 10_000 {
				q := cache.Ask(&chat, []byte("rest"), fmt.Sprintf("what is the price of article %d", i))
				keys, vectors, partition = append(keys, q.SemanticKey("s", noon)), append(vectors, random(r, dims)), q.Partition
				index.Put(&cache.Entry{Intent: fmt.Sprint(i), Tenant: "a", Workflow: "chat", Kind: cache.Semantic, Key: keys[i], Partition: q.Partition,
					Vector: vectors[i], Made: noon, Expires: noon.Add(time.Hour)}, cache.Bounds{})
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				k := i % len(keys)
				e, why := index.Candidate("a", "chat", partition, keys[k], noon)
				if why == cache.Found {
					_, why = cache.Confirm(e, vectors[k], 0.95)
				}
				if why != cache.Found {
					b.Fatal(why)
				}
			}
		})
	}
}

// BenchmarkKey reads a question and makes its key, which every look-up does first.
func BenchmarkKey(b *testing.B) {
	q := cache.Ask(&chat, make([]byte, 2000), "Hi, could you please tell me how I can reset the password of my account? Thanks!")
	b.ReportAllocs()
	for b.Loop() {
		q.SemanticKey("s", noon)
	}
}

func BenchmarkPut(b *testing.B) {
	v := random(rand.New(rand.NewPCG(1, 2)), 256)
	var index cache.Index
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		e := &cache.Entry{Intent: strconv.Itoa(i), Tenant: "a", Workflow: "chat", Kind: cache.Semantic, Vector: v, Made: noon, Expires: noon.Add(time.Hour)}
		e.Key[0], e.Key[1], e.Key[2] = byte(i), byte(i>>8), byte(i>>16)
		index.Put(e, cache.Bounds{})
	}
}

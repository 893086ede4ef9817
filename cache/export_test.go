package cache

// Size is what an index holds: entries, their bytes as counted, and shelves.
func (x *Index) Size() (entries int, bytes int64, shelves int) {
	x.each(func(_ shelfName, s *shelf) {
		entries += s.order.Len()
		bytes += s.bytes
		shelves++
	})
	if bytes != x.total.Load() {
		panic("the shelves do not hold what the index counts")
	}
	return entries, bytes, shelves
}

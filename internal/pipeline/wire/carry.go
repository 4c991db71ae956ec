package wire

import "encoding/binary"

// Carries reports whether a prediction belongs to the share that carries features. The
// decision depends only on the sample that the prediction ends with: a replay, another
// worker and a reader of the log select the same predictions, and a share includes all
// smaller shares.
func Carries(stream string, seq uint64, row uint32, share float64) bool {
	if share <= 0 {
		return false
	}
	// FNV-1a, followed by the finalizer of MurmurHash3: its highest bits depend on all
	// input bits.
	const prime = 1099511628211
	h := uint64(14695981039346656037)
	for i := range len(stream) {
		h = (h ^ uint64(stream[i])) * prime
	}
	var place [12]byte
	binary.LittleEndian.PutUint64(place[:], seq)
	binary.LittleEndian.PutUint32(place[8:], row)
	for _, b := range place {
		h = (h ^ uint64(b)) * prime
	}
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	h ^= h >> 33
	return float64(h>>11) < share*(1<<53)
}

package pipeline

import (
	"encoding/binary"
	"encoding/hex"
	"errors"

	"github.com/zeebo/xxh3"
)

// digest identifies everything a partition remembers: the sum, in two words
// modulo 2^64, of a 128-bit hash of each key's and each stream's bytes: those
// of a snapshot, with a hash in the place of each state row. A sum follows a change of one stream without looking at the
// others. It finds faults; it is no defence against somebody who wants two
// states to look alike.
type digest [2]uint64

func (d *digest) add(h digest) { d[0] += h[0]; d[1] += h[1] }

func (d *digest) sub(h digest) { d[0] -= h[0]; d[1] -= h[1] }

func (d digest) String() string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], d[0])
	binary.BigEndian.PutUint64(b[8:], d[1])
	return hex.EncodeToString(b[:])
}

func parseDigest(s string) (digest, error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != 16 {
		return digest{}, errors.New("want 32 hex digits")
	}
	return digest{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])}, nil
}

func hashOf(b []byte) digest {
	h := xxh3.Hash128(b)
	return digest{h.Hi, h.Lo}
}

func appendDigest(dst []byte, d digest) []byte {
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(dst, d[0]), d[1])
}

package wire

import (
	"encoding/binary"
	"encoding/hex"
	"errors"

	"github.com/zeebo/xxh3"
)

// Digest identifies the state of a partition: the sum, in two words modulo 2^64, of a
// 128-bit hash of the bytes of each key and each stream, encoded as in a snapshot with
// a hash instead of each state row. A sum can be updated for one stream without the
// others. A digest detects faults; it is no defense against an attacker who constructs
// equal digests.
type Digest [2]uint64

// Add adds a hash, Sub subtracts it.
func (d *Digest) Add(h Digest) { d[0] += h[0]; d[1] += h[1] }
func (d *Digest) Sub(h Digest) { d[0] -= h[0]; d[1] -= h[1] }

func (d Digest) String() string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], d[0])
	binary.BigEndian.PutUint64(b[8:], d[1])
	return hex.EncodeToString(b[:])
}

// ParseDigest reads the output of String.
func ParseDigest(s string) (Digest, error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != 16 {
		return Digest{}, errors.New("want 32 hex digits")
	}
	return Digest{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])}, nil
}

// HashOf is the hash of some bytes.
func HashOf(b []byte) Digest {
	h := xxh3.Hash128(b)
	return Digest{h.Hi, h.Lo}
}

// AppendDigest appends a digest as in snapshots.
func AppendDigest(dst []byte, d Digest) []byte {
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(dst, d[0]), d[1])
}

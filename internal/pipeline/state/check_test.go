package state

import (
	"errors"
	"testing"

	"github.com/eusn-stream/eusn-stream/reservoir"
)

// A rebuilt state is compared with the digest of the record when the state reaches the
// record's position, and not earlier.
func TestDigestIsCompared(t *testing.T) {
	o := newOwner(t, rulesOf(reservoir.Policy{Kind: reservoir.Count, Length: 4}))
	o.feedMessages(numberMessages(rowsMessage(t, 3, false), rowsMessage(t, 3, false)), func(uint64) bool { return true })
	right, done := o.p.Sum, o.p.Done
	wrong := right
	wrong.Add(right)
	for _, c := range []struct {
		want     Expected
		compared bool
		differs  bool
	}{
		{Expected{At: done, Digest: right}, true, false},
		{Expected{At: done, Digest: wrong}, true, true},
		{Expected{At: done + 1, Digest: wrong}, false, false},
	} {
		o.p.Want = c.want
		compared, err := o.p.CompareDigest()
		var differs *Mismatch
		if compared != c.compared || errors.As(err, &differs) != c.differs {
			t.Errorf("at message %d, expected %+v: compared %v, %v", done, c.want, compared, err)
		}
	}
}

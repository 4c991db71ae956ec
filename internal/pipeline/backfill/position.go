package backfill

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/eusn-stream/eusn-stream/internal/durable"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/inlog"
)

const (
	positionMagic   = "EUSNBACK"
	positionVersion = 1
	// largestPosition bounds what is read into memory.
	largestPosition = 64 << 30
)

// Asked is what a computation is about. One is continued only by the same.
type Asked struct {
	Input    string `json:"input"`    // where the messages come from
	Range    string `json:"range"`    // which of them, in the words of who asks
	Model    string `json:"model"`    // fingerprint, and which readout
	Settings string `json:"settings"` // what else the predictions depend on
}

// Differs says what another computation is about; empty where it is the same.
func (a Asked) Differs(o Asked) string {
	for _, f := range []struct{ what, a, o string }{
		{"input", a.Input, o.Input}, {"range", a.Range, o.Range}, {"model", a.Model, o.Model}, {"settings", a.Settings, o.Settings},
	} {
		if f.a != f.o {
			return fmt.Sprintf("another %s: it has %s, this one %s", f.what, f.o, f.a)
		}
	}
	return ""
}

// Done counts what a computation has done.
type Done struct {
	Messages    uint64 `json:"messages"` // whose predictions are asked for
	Before      uint64 `json:"before"`   // messages read for the states alone
	Samples     uint64 `json:"samples"`  // in all of these
	Removed     uint64 `json:"removed"`  // that were gone from the log before they could be read
	Unusable    uint64 `json:"unusable"`
	Reason      string `json:"reason,omitempty"` // of the first that was
	Predictions uint64 `json:"predictions"`
}

// Position is how far a computation has come.
type Position struct {
	Asked Asked       `json:"asked"`
	Range Range       `json:"messages"`
	Bytes int64       `json:"bytes"` // of the lines so far
	Next  inlog.Place `json:"after"` // the last message taken
	Over  bool        `json:"over"`  // all are taken
	Done  Done        `json:"done"`
}

// Range is which messages are read: those up to Last, and those before First for
// the states alone.
type Range struct {
	Begin, First, Last uint64 // Last 0: to the end of the source
}

// encode writes a position and the state there.
func (p *Position) encode(state []byte) ([]byte, error) {
	head, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("backfill: position: %w", err)
	}
	le := binary.LittleEndian
	b := make([]byte, 0, len(positionMagic)+8+len(head)+len(state)+sha256.Size)
	b = le.AppendUint32(append(b, positionMagic...), positionVersion)
	b = append(append(le.AppendUint32(b, uint32(len(head))), head...), state...)
	sum := sha256.Sum256(b)
	return append(b, sum[:]...), nil
}

// decodePosition reads what encode wrote. The state is part of b.
func decodePosition(b []byte) (p Position, state []byte, err error) {
	le, fixed := binary.LittleEndian, len(positionMagic)+8
	if len(b) < fixed+sha256.Size || string(b[:len(positionMagic)]) != positionMagic {
		return p, nil, errors.New("it is no position of a backfill")
	}
	if v := le.Uint32(b[len(positionMagic):]); v != positionVersion {
		return p, nil, fmt.Errorf("it has version %d, and this program reads version %d: use the program that began it", v, positionVersion)
	}
	body := b[:len(b)-sha256.Size]
	if sum := sha256.Sum256(body); string(sum[:]) != string(b[len(body):]) {
		return p, nil, errors.New("its bytes do not match its sha256: it was damaged")
	}
	rest, n := body[fixed:], uint64(le.Uint32(b[len(positionMagic)+4:]))
	if n > uint64(len(rest)) {
		return p, nil, errors.New("it is cut short")
	}
	if err := json.Unmarshal(rest[:n], &p); err != nil {
		return p, nil, err
	}
	if p.Bytes < 0 {
		return p, nil, fmt.Errorf("it stands after %d bytes", p.Bytes)
	}
	return p, rest[n:], nil
}

// readPosition returns fs.ErrNotExist where there is none.
func readPosition(path string) (p Position, state []byte, err error) {
	there, err := os.Stat(path)
	if err != nil {
		return p, nil, err
	}
	if !there.Mode().IsRegular() || there.Size() > largestPosition {
		return p, nil, fmt.Errorf("backfill: %s: it is no position of a backfill", path)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return p, nil, err
	}
	if p, state, err = decodePosition(b); err != nil {
		err = fmt.Errorf("backfill: %s: %w", path, err)
	}
	return p, state, err
}

// replaceFile writes a file that appears whole or not at all, and stays.
func replaceFile(path string, data []byte) error {
	f, err := os.OpenFile(path+".tmp", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if _, err = f.Write(data); err != nil {
		return errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	return durable.Commit(f, path, 0o600)
}

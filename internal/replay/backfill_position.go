package replay

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
	backfillMagic   = "EUSNBACK"
	backfillVersion = 1
	// largestPosition bounds the bytes read into memory.
	largestPosition = 64 << 30
)

// backfillPosition is how far a computation has come.
type backfillPosition struct {
	Asked inlog.Asked   `json:"asked"`
	Range backfillRange `json:"messages"`
	Bytes int64         `json:"bytes"` // of the lines so far
	Next  inlog.Place   `json:"after"` // the last message taken
	Over  bool          `json:"over"`  // all are taken
	Done  BackfillDone  `json:"done"`
}

// backfillRange is the range of messages to read: up to Last; messages before First are read only for the states.
type backfillRange struct {
	Begin, First, Last uint64 // Last 0: to the end of the source
}

// encode writes a position and its state.
func (p *backfillPosition) encode(state []byte) ([]byte, error) {
	head, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("backfill: position: %w", err)
	}
	le := binary.LittleEndian
	b := make([]byte, 0, len(backfillMagic)+8+len(head)+len(state)+sha256.Size)
	b = le.AppendUint32(append(b, backfillMagic...), backfillVersion)
	b = append(append(le.AppendUint32(b, uint32(len(head))), head...), state...)
	sum := sha256.Sum256(b)
	return append(b, sum[:]...), nil
}

// decodePosition reads the output of encode. The state is part of b.
func decodePosition(b []byte) (p backfillPosition, state []byte, err error) {
	le, fixed := binary.LittleEndian, len(backfillMagic)+8
	if len(b) < fixed+sha256.Size || string(b[:len(backfillMagic)]) != backfillMagic {
		return p, nil, errors.New("it is not a position of a backfill")
	}
	if v := le.Uint32(b[len(backfillMagic):]); v != backfillVersion {
		return p, nil, fmt.Errorf("it has version %d, and this program reads version %d: use the program that began it", v, backfillVersion)
	}
	body := b[:len(b)-sha256.Size]
	if sum := sha256.Sum256(body); string(sum[:]) != string(b[len(body):]) {
		return p, nil, errors.New("its bytes do not match its sha256: it was damaged")
	}
	rest, n := body[fixed:], uint64(le.Uint32(b[len(backfillMagic)+4:]))
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

// readPosition returns fs.ErrNotExist if no position exists.
func readPosition(path string) (p backfillPosition, state []byte, err error) {
	there, err := os.Stat(path)
	if err != nil {
		return p, nil, err
	}
	if !there.Mode().IsRegular() || there.Size() > largestPosition {
		return p, nil, fmt.Errorf("backfill: %s: it is not a position of a backfill", path)
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

// replaceFile writes a durable file, whole or not at all.
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

package natsserver

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/minio/highwayhash"
	"github.com/nats-io/nats-server/v2/server"
)

// Names in a NATS server's file store, from version 2.2 to 2.15 at least:
// <dir>/jetstream/<account>/streams/<NATS stream>/meta.inf is its configuration
// as JSON, meta.sum the HighwayHash-64 of that file, in hex, keyed by the
// SHA-256 of its name; obs/<consumer>/ has the same of a durable consumer. The
// server writes one after the other. Without meta.sum it leaves the NATS stream
// out at its start, with a warning in its log; who makes it again gets its
// messages under a new time of creation, at every start anew.
const (
	metaFile = server.JetStreamMetaFile
	metaSum  = server.JetStreamMetaFileSum
	metaKey  = server.JetStreamMetaFileKey // of a store that is encrypted: left alone
)

// Repair writes the checksums that are missing or unfinished beside the
// configurations of NATS streams and consumers in the file store of a NATS
// server that does not run. dir is what the server calls store_dir. A
// configuration is trusted if it is whole JSON with the name of its directory;
// a checksum that does not fit is replaced only where the configuration was
// written after it. Nothing else is touched, an encrypted store not at all. It
// returns the directories it has repaired; the errors are of what it could not
// read or write. Run it as the server's user, who must be able to read the
// checksums.
// A store that an eusn-stream runs on is refused; whether another server runs on
// one cannot be told from it.
func Repair(dir string) (repaired []string, err error) {
	if _, err := os.Stat(filepath.Join(dir, lockFile)); err == nil {
		lock, err := lockDir(dir)
		if err != nil {
			return nil, err
		}
		defer lock.release()
	}
	return repair(dir)
}

// repair is Repair of a directory that is ours.
func repair(dir string) (repaired []string, err error) {
	var errs []error
	for _, c := range []struct{ what, pattern string }{{"stream", "jetstream/*/streams/*"}, {"consumer", "jetstream/*/streams/*/obs/*"}} {
		dirs, err := filepath.Glob(filepath.Join(literal(dir), c.pattern))
		if err != nil {
			return nil, fmt.Errorf("pipeline: %s: %w", dir, err)
		}
		for _, d := range dirs {
			key := filepath.Base(d)
			if c.what == "consumer" {
				key = filepath.Base(filepath.Dir(filepath.Dir(d))) + "/" + key
			}
			done, err := repairMeta(d, key)
			if done {
				repaired = append(repaired, d)
			}
			errs = append(errs, err)
		}
	}
	return repaired, errors.Join(errs...)
}

// literal is a path as a pattern that matches it alone.
func literal(path string) string {
	var b []rune
	for _, r := range path {
		switch r {
		case '*', '?', '[', '\\':
			if filepath.Separator == '/' {
				b = append(b, '\\')
			}
		}
		b = append(b, r)
	}
	return string(b)
}

// repairMeta looks at one directory and writes its checksum where that is
// needed.
func repairMeta(dir, key string) (done bool, err error) {
	if _, err := os.Stat(filepath.Join(dir, metaKey)); err == nil {
		return false, nil
	}
	inf, err := os.ReadFile(filepath.Join(dir, metaFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	var sum []byte
	if err == nil {
		if sum, err = os.ReadFile(filepath.Join(dir, metaSum)); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	if err != nil {
		return false, fmt.Errorf("pipeline: %w", err)
	}
	want, err := metaChecksum(inf, key)
	if err != nil || want == string(sum) || !wholeMeta(inf, filepath.Base(dir)) {
		return false, err
	}
	if b, err := hex.DecodeString(string(sum)); err == nil && len(b) == highwayhash.Size64 && !writtenAfter(dir) {
		return false, nil // the configuration itself was changed: not ours to bless
	}
	if err := writeWhole(filepath.Join(dir, metaSum), []byte(want)); err != nil {
		return false, fmt.Errorf("pipeline: %w", err)
	}
	return true, nil
}

func metaChecksum(inf []byte, key string) (string, error) {
	k := sha256.Sum256([]byte(key))
	h, err := highwayhash.NewDigest64(k[:])
	if err != nil {
		return "", fmt.Errorf("pipeline: %w", err)
	}
	h.Write(inf)
	return hex.EncodeToString(h.Sum(nil)), nil
}

// wholeMeta reports whether a configuration is complete, and that of its
// directory.
func wholeMeta(inf []byte, name string) bool {
	var m struct {
		Created time.Time `json:"Created"`
		Name    string    `json:"name"`
	}
	return json.Unmarshal(inf, &m) == nil && m.Name == name && !m.Created.IsZero()
}

// writtenAfter reports whether a configuration is younger than its checksum:
// the server was interrupted between the two.
func writtenAfter(dir string) bool {
	inf, err1 := os.Stat(filepath.Join(dir, metaFile))
	sum, err2 := os.Stat(filepath.Join(dir, metaSum))
	return err1 == nil && err2 == nil && inf.ModTime().After(sum.ModTime())
}

// writeWhole replaces a file by one that is on disk before it has the name.
func writeWhole(path string, b []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".repair-*")
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

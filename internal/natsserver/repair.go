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
// server writes one after the other. Without meta.sum it does not load the NATS
// stream when it starts and logs a warning; a stream that is then created under
// the same name has the messages, but a new time of creation, at every start.
const (
	metaFile = server.JetStreamMetaFile
	metaSum  = server.JetStreamMetaFileSum
	metaKey  = server.JetStreamMetaFileKey // of an encrypted store, which is left alone
)

// Repair writes missing or incomplete checksum files of NATS streams and
// consumers in the file store of a NATS server that does not run. dir is what
// the server calls store_dir. A configuration is trusted if it is complete JSON
// with the name of its directory; a checksum that does not fit is replaced only
// if the configuration was written after it. Nothing else is changed, and
// nothing at all in an encrypted store. It returns the directories it has
// repaired; the errors name what it could not read or write. Run it as the
// server's user, who must be able to read the checksums.
//
// It refuses a store on which an embedded server runs. It cannot see whether
// another server runs on it: stop that first.
func Repair(dir string) (repaired []string, err error) {
	if _, err := os.Stat(filepath.Join(dir, lockFile)); err == nil {
		release, err := lockDir(dir)
		if err != nil {
			return nil, err
		}
		defer release()
	}
	return repair(dir)
}

// repair is Repair of a directory whose lock we hold.
func repair(dir string) (repaired []string, err error) {
	var errs []error
	for _, c := range []struct{ what, pattern string }{{"stream", "jetstream/*/streams/*"}, {"consumer", "jetstream/*/streams/*/obs/*"}} {
		dirs, err := filepath.Glob(filepath.Join(literal(dir), c.pattern))
		if err != nil {
			return nil, fmt.Errorf("natsserver: %s: %w", dir, err)
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

// literal is a glob pattern that matches only this path.
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

// repairMeta writes the checksum of one directory if it needs one. key is what
// the checksum is keyed by.
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
		return false, fmt.Errorf("natsserver: %w", err)
	}
	want, err := metaChecksum(inf, key)
	if err != nil || want == string(sum) || !wholeMeta(inf, filepath.Base(dir)) {
		return false, err
	}
	if b, err := hex.DecodeString(string(sum)); err == nil && len(b) == highwayhash.Size64 && !writtenAfter(dir) {
		return false, nil // the configuration itself was changed: it must not be made valid
	}
	if err := writeWhole(filepath.Join(dir, metaSum), []byte(want)); err != nil {
		return false, fmt.Errorf("natsserver: %w", err)
	}
	return true, nil
}

func metaChecksum(inf []byte, key string) (string, error) {
	k := sha256.Sum256([]byte(key))
	h, err := highwayhash.NewDigest64(k[:])
	if err != nil {
		return "", fmt.Errorf("natsserver: %w", err)
	}
	h.Write(inf)
	return hex.EncodeToString(h.Sum(nil)), nil
}

// wholeMeta reports whether a configuration is complete and has the name of its
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

// writeWhole replaces a file by one that is on disk before it gets the name.
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

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

// Files in a NATS server's file store, from version 2.2 to 2.15 at least:
// <dir>/jetstream/<account>/streams/<NATS stream>/meta.inf is the stream's configuration as
// JSON; meta.sum is the HighwayHash-64 of meta.inf, in hex, keyed by the SHA-256 of the
// stream's name; obs/<consumer>/ has the same files for a durable consumer. The server writes
// meta.inf first. Without meta.sum the server does not load the NATS stream at its start and
// logs a warning; a stream then created under the same name has the messages, but at every
// start a new time of creation.
const (
	metaFile = server.JetStreamMetaFile
	metaSum  = server.JetStreamMetaFileSum
	metaKey  = server.JetStreamMetaFileKey // of an encrypted store, which is not repaired
)

// Repair writes missing or incomplete checksum files of NATS streams and consumers in the file
// store of a stopped NATS server. The argument dir is the server's store_dir. Repair trusts a
// configuration if it is complete JSON with the name of its directory; a wrong checksum is
// replaced only if the configuration is younger. Repair changes nothing else, and nothing in an
// encrypted store. It returns the repaired directories; errors name unreadable and unwritable
// files. Run it as the server's user, who must be able to read the checksums.
//
// Repair refuses the store of a running embedded server. It cannot detect another running
// server: stop such a server first.
func Repair(dir string) (repaired []string, err error) {
	if _, err := os.Stat(filepath.Join(dir, lockFile)); err == nil {
		release, err := lockDir(dir)
		if err != nil {
			return nil, err
		}
		defer release()
	}
	return repairLocked(dir)
}

// repairLocked is Repair for a locked directory.
func repairLocked(dir string) (repaired []string, err error) {
	var errs []error
	for _, c := range []struct{ kind, pattern string }{{"stream", "jetstream/*/streams/*"}, {"consumer", "jetstream/*/streams/*/obs/*"}} {
		dirs, err := filepath.Glob(filepath.Join(quotePattern(dir), c.pattern))
		if err != nil {
			return nil, fmt.Errorf("natsserver: %s: %w", dir, err)
		}
		for _, d := range dirs {
			key := filepath.Base(d)
			if c.kind == "consumer" {
				key = filepath.Base(filepath.Dir(filepath.Dir(d))) + "/" + key
			}
			changed, err := repairMeta(d, key)
			if changed {
				repaired = append(repaired, d)
			}
			errs = append(errs, err)
		}
	}
	return repaired, errors.Join(errs...)
}

// quotePattern returns a glob pattern that matches only this path.
func quotePattern(path string) string {
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

// repairMeta writes the checksum of one directory if necessary, with the given key.
func repairMeta(dir, key string) (changed bool, err error) {
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
		return false, nil // the configuration was changed: it must not become valid
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

// wholeMeta reports whether a configuration is complete and has the name of its directory.
func wholeMeta(inf []byte, name string) bool {
	var m struct {
		Created time.Time `json:"Created"`
		Name    string    `json:"name"`
	}
	return json.Unmarshal(inf, &m) == nil && m.Name == name && !m.Created.IsZero()
}

// writtenAfter reports whether a configuration is younger than its checksum: the server was
// interrupted between both writes.
func writtenAfter(dir string) bool {
	inf, err1 := os.Stat(filepath.Join(dir, metaFile))
	sum, err2 := os.Stat(filepath.Join(dir, metaSum))
	return err1 == nil && err2 == nil && inf.ModTime().After(sum.ModTime())
}

// writeWhole replaces a file atomically: the content is on the disk before the rename.
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

package natsserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/eusn-stream/eusn-stream/internal/durable"
)

// Note says how other processes reach the running server of a data directory. It contains no
// login.
type Note struct {
	URL string `json:"url"`
	ID  string `json:"id"` // id of the server (nats.Conn.ConnectedServerId), different at each start
}

// noteFile is the name of the note in the data directory.
const noteFile = "eusn-server.json"

// ReadNote reads the note of a data directory. After a crash the note remains: the server at
// its URL then has another id, or does not answer. Without a note, the error is fs.ErrNotExist.
func ReadNote(dir string) (Note, error) {
	var n Note
	text, err := os.ReadFile(filepath.Join(dir, noteFile))
	if err == nil {
		err = json.Unmarshal(text, &n)
	}
	return n, err
}

// HasStore reports whether a directory is the data directory of an embedded server.
func HasStore(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "jetstream"))
	return err == nil
}

// writeNote writes the note of a server that listens; for an in-process server it removes the
// note of a previous server.
func (s *Server) writeNote(dir string) error {
	if s.URL() == "" {
		return removeNote(dir)
	}
	text, err := json.Marshal(Note{URL: localURL(s.URL()), ID: s.ns.ID()})
	if err != nil {
		return err
	}
	return durable.Write(filepath.Join(dir, noteFile), append(text, '\n'), 0o600)
}

func removeNote(dir string) error {
	if err := os.Remove(filepath.Join(dir, noteFile)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// localURL replaces the host of an address for all of this machine by 127.0.0.1.
func localURL(url string) string {
	scheme, address, _ := strings.Cut(url, "://")
	host, port, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		return fmt.Sprintf("%s://%s", scheme, net.JoinHostPort(localhost, port))
	}
	return url
}

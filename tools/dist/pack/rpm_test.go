package pack

import (
	"bytes"
	"compress/gzip"
	"crypto/md5"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"testing"
)

// readHeader reads a header of rpm: its values by tag, and its size.
func readHeader(t *testing.T, b []byte) (tags map[uint32][]byte, size int) {
	t.Helper()
	if !bytes.HasPrefix(b, []byte("\x8e\xad\xe8\x01\x00\x00\x00\x00")) {
		t.Fatalf("a header begins with %x", b[:8])
	}
	u := func(at int) int { return int(binary.BigEndian.Uint32(b[at:])) }
	n, length := u(8), u(12)
	size = 16 + 16*n + length
	store := b[16+16*n : size]
	tags = map[uint32][]byte{}
	last := 0
	for i := range n {
		at := 16 + 16*i
		tag, kind, offset := u(at), u(at+4), u(at+8)
		if i > 0 && tag <= last {
			t.Errorf("tag %d after %d: want them in order", tag, last)
		}
		if align := map[int]int{rpmInt16: 2, rpmInt32: 4}[kind]; align > 0 && offset%align != 0 {
			t.Errorf("tag %d is at %d", tag, offset)
		}
		if i > 0 {
			last = tag
		}
		tags[uint32(tag)] = store[offset:]
	}
	return tags, size
}

func word(b []byte) string { s, _, _ := strings.Cut(string(b), "\x00"); return s }

// The digests of an rpm match its parts, and its payload is the files. Checks with rpm
// itself are in tools/dist/check.sh.
func TestRPM(t *testing.T) {
	p := example()
	data, err := p.RPM()
	if err != nil {
		t.Fatal(err)
	}
	if got := p.RPMName(); got != "hello-1.2.0~rc.1-1.x86_64.rpm" {
		t.Errorf("is called %s", got)
	}
	signature, size := readHeader(t, data[96:])
	at := (96 + size + 7) &^ 7
	header, size := readHeader(t, data[at:])
	payload := data[at+size:]
	if got, want := word(signature[273]), fmt.Sprintf("%x", sha256.Sum256(data[at:at+size])); got != want {
		t.Errorf("the header's digest is %s, want %s", got, want)
	}
	if sum := md5.Sum(data[at:]); !bytes.HasPrefix(signature[1004], sum[:]) {
		t.Error("the digest of all is another")
	}
	if got, want := word(header[5092]), fmt.Sprintf("%x", sha256.Sum256(payload)); got != want {
		t.Errorf("the payload's digest is %s, want %s", got, want)
	}
	for tag, want := range map[uint32]string{1000: "hello", 1001: "1.2.0~rc.1", 1002: "1", 1014: "Apache-2.0", 1022: "x86_64", 1024: "exit 0\n", 1124: "cpio"} {
		if got := word(header[tag]); got != want {
			t.Errorf("tag %d is %q, want %q", tag, got, want)
		}
	}
	r, err := gzip.NewReader(bytes.NewReader(payload))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if got := binary.BigEndian.Uint32(signature[1007]); int(got) != len(plain) {
		t.Errorf("the payload has %d bytes unpacked, the signature says %d", len(plain), got)
	}
	for _, f := range p.Files {
		if !bytes.Contains(plain, append([]byte("./"+f.Path), 0)) || !bytes.Contains(plain, f.Data) {
			t.Errorf("the payload lacks %s", f.Path)
		}
	}
	// etc and usr belong to the system: rpm would remove them.
	if bytes.Contains(plain, []byte("./usr\x00")) || !bytes.Contains(plain, []byte("./etc/hello\x00")) {
		t.Error("want the package's own directories in the payload, and no other")
	}
}

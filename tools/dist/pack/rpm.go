package pack

import (
	"bytes"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"path"
	"strings"
)

// rpmArch are rpm's names of architectures.
var rpmArch = map[string]string{"amd64": "x86_64", "arm64": "aarch64", "arm": "armv7hl"}

const (
	rpmRelease = "1"
	rpmVendor  = "eusn-stream"

	// Flags of files (rpmfileAttrs_e) and of dependencies (rpmsenseFlags_e).
	rpmConfigNoReplace = 1<<0 | 1<<4 // an upgrade writes its version next to a changed file
	rpmDoc             = 1 << 1
	rpmLess            = 1 << 1
	rpmEqual           = 1 << 3
	rpmlib             = 1 << 24
)

// RPMName returns the file name of the package.
func (p *Package) RPMName() string {
	return fmt.Sprintf("%s-%s-%s.%s.rpm", p.Name, p.Version, rpmRelease, rpmArch[p.Arch])
}

// RPM returns the package for rpm 4.14 and later, without a signature.
func (p *Package) RPM() ([]byte, error) {
	arch, known := rpmArch[p.Arch]
	if !known {
		return nil, fmt.Errorf("pack: rpm: no architecture of rpm is known for %s", p.Arch)
	}
	files := p.owned()
	plain := cpio(files, p.Time.Unix())
	payload, err := compressed(plain)
	if err != nil {
		return nil, fmt.Errorf("pack: rpm: %w", err)
	}
	header := p.rpmHeader(arch, files, payload).encode(63)
	both := append(bytes.Clone(header), payload...)
	sum := md5.Sum(both)
	var signature rpmTags
	signature.text(269, fmt.Sprintf("%x", sha1.Sum(header)))
	signature.text(273, fmt.Sprintf("%x", sha256.Sum256(header)))
	signature.int32s(1000, len(both))
	signature.bin(1004, sum[:])
	signature.int32s(1007, len(plain))

	var b bytes.Buffer
	b.Write(p.rpmLead())
	b.Write(signature.encode(62))
	b.Write(make([]byte, -b.Len()&7)) // the header begins at a multiple of 8
	b.Write(both)
	return b.Bytes(), nil
}

// owned returns the files, and the directories that belong only to the package: rpm
// removes them with the package.
func (p *Package) owned() []File {
	var all []File
	for _, f := range sorted(p.Files) {
		if !f.Mode.IsDir() || strings.Contains(path.Base(f.Path), p.Name) {
			all = append(all, f)
		}
	}
	return all
}

// rpmLead returns the lead for file(1). rpm itself reads only its first bytes.
func (p *Package) rpmLead() []byte {
	lead := make([]byte, 96)
	copy(lead, "\xed\xab\xee\xdb\x03\x00\x00\x00")
	binary.BigEndian.PutUint16(lead[8:], 1)
	copy(lead[10:75], strings.TrimSuffix(p.RPMName(), ".rpm"))
	binary.BigEndian.PutUint16(lead[76:], 1) // Linux
	binary.BigEndian.PutUint16(lead[78:], 5) // signatures are a header
	return lead
}

// rpmHeader returns the header, with the numbers of rpm's tags.
func (p *Package) rpmHeader(arch string, files []File, payload []byte) *rpmTags {
	var t rpmTags
	total := 0
	for _, f := range files {
		total += len(f.Data)
	}
	t.texts(100, "C")
	t.text(1000, p.Name)
	t.text(1001, p.Version)
	t.text(1002, rpmRelease)
	t.i18n(1004, p.Summary)
	t.i18n(1005, strings.ReplaceAll(p.Description, "\n", "\n\n"))
	t.int32s(1006, int(p.Time.Unix()))
	t.text(1007, "localhost")
	t.int32s(1009, total)
	t.text(1011, rpmVendor)
	t.text(1014, p.License)
	t.text(1015, p.Maintainer)
	t.i18n(1016, "Unspecified")
	t.text(1020, p.Homepage)
	t.text(1021, "linux")
	t.text(1022, arch)
	for _, s := range []struct {
		name         string
		tag, program int
	}{{"pre", 1023, 1085}, {"post", 1024, 1086}, {"preun", 1025, 1087}, {"postun", 1026, 1088}} {
		if text := p.RPMScripts[s.name]; text != "" {
			t.text(s.tag, text)
			t.texts(s.program, "/bin/sh")
		}
	}
	var l rpmFiles
	for i, f := range files {
		l.addFile(i, f, int(p.Time.Unix()))
	}
	l.write(&t)
	t.text(1044, fmt.Sprintf("%s-%s-%s.src.rpm", p.Name, p.Version, rpmRelease))
	t.texts(1047, p.Name, p.Name+"("+strings.ReplaceAll(arch, "_", "-")+")")
	t.int32s(1112, rpmEqual, rpmEqual)
	t.texts(1113, p.Version+"-"+rpmRelease, p.Version+"-"+rpmRelease)
	requires := [][2]string{{"rpmlib(CompressedFileNames)", "3.0.4-1"}, {"rpmlib(FileDigests)", "4.6.0-1"}, {"rpmlib(PayloadFilesHavePrefix)", "4.0-1"}, {"rpmlib(TildeInVersions)", "4.10.0-1"}}
	for _, r := range requires {
		t.addValue(1048, rpmInt32, binary.BigEndian.AppendUint32(nil, rpmlib|rpmLess|rpmEqual))
		t.addValue(1049, rpmStrings, append([]byte(r[0]), 0))
		t.addValue(1050, rpmStrings, append([]byte(r[1]), 0))
	}
	t.text(1064, "4.14.0")
	t.text(1124, "cpio")
	t.text(1125, "gzip")
	t.text(1126, "9")
	t.int32s(5011, 8) // digests of files are SHA-256
	t.texts(5092, fmt.Sprintf("%x", sha256.Sum256(payload)))
	t.int32s(5093, 8)
	return &t
}

// cpio returns the payload: an archive in the "new ASCII" form.
func cpio(files []File, at int64) []byte {
	var b bytes.Buffer
	write := func(inode int, name string, mode, links int, data []byte) {
		fmt.Fprintf(&b, "070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X", inode, mode, 0, 0, links, at, len(data), 0, 0, 0, 0, len(name)+1, 0)
		b.WriteString(name)
		b.WriteByte(0)
		b.Write(make([]byte, -b.Len()&3))
		b.Write(data)
		b.Write(make([]byte, -b.Len()&3))
	}
	for i, f := range files {
		write(i+1, "./"+f.Path, rpmMode(f), 1, f.Data)
	}
	at = 0
	write(0, "TRAILER!!!", 0, 1, nil)
	return b.Bytes()
}

func rpmMode(f File) int {
	if f.Mode.IsDir() {
		return 0o040000 | int(f.Mode.Perm())
	}
	return 0o100000 | int(f.Mode.Perm())
}

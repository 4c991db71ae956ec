package pack

import (
	"bytes"
	"crypto/md5"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// debArch are Debian's names of architectures.
var debArch = map[string]string{"amd64": "amd64", "arm64": "arm64", "arm": "armhf"}

// DebName returns the file name of the package.
func (p *Package) DebName() string {
	return fmt.Sprintf("%s_%s_%s.deb", p.Name, p.Version, debArch[p.Arch])
}

// Deb returns the package for dpkg.
func (p *Package) Deb() ([]byte, error) {
	arch, known := debArch[p.Arch]
	if !known {
		return nil, fmt.Errorf("pack: deb: no Debian architecture is known for %s", p.Arch)
	}
	data, err := Tar("./", p.Files, p.Time)
	if err != nil {
		return nil, fmt.Errorf("pack: deb: %w", err)
	}
	var sums, conf strings.Builder
	kib := 0
	for _, f := range sorted(p.Files) {
		kib += (len(f.Data) + 1023) / 1024
		switch {
		case f.Mode.IsDir():
			kib++
		case f.Config:
			fmt.Fprintf(&conf, "/%s\n", f.Path)
		default:
			fmt.Fprintf(&sums, "%x  %s\n", md5.Sum(f.Data), f.Path)
		}
	}
	var control strings.Builder
	for _, line := range [][2]string{
		{"Package", p.Name}, {"Version", p.Version}, {"Architecture", arch}, {"Maintainer", p.Maintainer},
		{"Installed-Size", fmt.Sprint(kib)}, {"Recommends", "ca-certificates"}, {"Section", "science"}, {"Priority", "optional"}, {"Homepage", p.Homepage},
		{"Description", p.Summary},
	} {
		fmt.Fprintf(&control, "%s: %s\n", line[0], line[1])
	}
	for i, paragraph := range strings.Split(p.Description, "\n") {
		if i > 0 {
			control.WriteString(" .\n")
		}
		for _, line := range wrapText(paragraph, 75) {
			control.WriteString(" " + line + "\n")
		}
	}
	about := []File{{Path: "control", Mode: 0o644, Data: []byte(control.String())}, {Path: "md5sums", Mode: 0o644, Data: []byte(sums.String())}}
	if conf.Len() > 0 {
		about = append(about, File{Path: "conffiles", Mode: 0o644, Data: []byte(conf.String())})
	}
	for _, name := range slices.Sorted(maps.Keys(p.DebScripts)) {
		about = append(about, File{Path: name, Mode: 0o755, Data: []byte(p.DebScripts[name])})
	}
	controlTar, err := Tar("./", about, p.Time)
	if err != nil {
		return nil, fmt.Errorf("pack: deb: %w", err)
	}
	return ar(p.Time, []member{{"debian-binary", []byte("2.0\n")}, {"control.tar.gz", controlTar}, {"data.tar.gz", data}}), nil
}

// wrapText splits a paragraph into lines.
func wrapText(text string, width int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines = append(lines, line)
			line = ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return append(lines, line)
}

type member struct {
	name string
	data []byte
}

// ar returns an archive of ar(5), the format of a deb.
func ar(at time.Time, members []member) []byte {
	var b bytes.Buffer
	b.WriteString("!<arch>\n")
	for _, m := range members {
		fmt.Fprintf(&b, "%-16s%-12d%-6d%-6d%-8s%-10d`\n", m.name, at.Unix(), 0, 0, "100644", len(m.data))
		b.Write(m.data)
		if len(m.data)%2 == 1 {
			b.WriteByte('\n')
		}
	}
	return b.Bytes()
}

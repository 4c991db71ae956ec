// Package bom lists the parts of a program: a bill of materials (CycloneDX 1.6, JSON),
// and the licenses of all linked modules. Both are read from the program itself, and from
// its modules.
package bom

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Schema is the JSON Schema of this package's documents.
const Schema = "http://cyclonedx.org/schema/bom-1.6.schema.json"

type document struct {
	Schema       string       `json:"$schema"`
	Format       string       `json:"bomFormat"`
	Spec         string       `json:"specVersion"`
	Serial       string       `json:"serialNumber"`
	Version      int          `json:"version"`
	Metadata     metadata     `json:"metadata"`
	Components   []component  `json:"components"`
	Dependencies []dependency `json:"dependencies"`
}

type metadata struct {
	Timestamp string    `json:"timestamp"`
	Component component `json:"component"`
}

type component struct {
	Ref        string     `json:"bom-ref"`
	Type       string     `json:"type"`
	Name       string     `json:"name"`
	Version    string     `json:"version,omitempty"`
	Hashes     []hash     `json:"hashes,omitempty"`
	Licenses   []license  `json:"licenses,omitempty"`
	PURL       string     `json:"purl,omitempty"`
	Properties []property `json:"properties,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type license struct {
	License struct {
		ID string `json:"id"`
	} `json:"license"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type dependency struct {
	Ref       string   `json:"ref"`
	DependsOn []string `json:"dependsOn,omitempty"`
}

// Write returns the bill of materials of a version of a program: the linked modules, with their Go
// checksums, and the build settings.
func Write(program []byte, version string, at time.Time) ([]byte, error) {
	info, err := buildinfo.Read(bytes.NewReader(program))
	if err != nil {
		return nil, fmt.Errorf("bom: the program has no build information: %w", err)
	}
	main := component{
		Ref: purl(info.Main.Path, "v"+version), Type: "application", Name: "eusn-stream", Version: version,
		PURL:   purl(info.Main.Path, "v"+version),
		Hashes: []hash{{"SHA-256", fmt.Sprintf("%x", sha256.Sum256(program))}},
	}
	main.Licenses = make([]license, 1)
	main.Licenses[0].License.ID = "Apache-2.0"
	for _, s := range info.Settings {
		switch s.Key {
		case "GOOS", "GOARCH", "GOARM", "GOAMD64", "CGO_ENABLED", "vcs.revision", "vcs.time":
			main.Properties = append(main.Properties, property{"build:" + s.Key, s.Value})
		}
	}
	std := component{Ref: purl("stdlib", strings.TrimPrefix(info.GoVersion, "go")), Type: "library", Name: "stdlib", Version: info.GoVersion, PURL: purl("stdlib", strings.TrimPrefix(info.GoVersion, "go"))}
	d := document{
		Schema: Schema, Format: "CycloneDX", Spec: "1.6", Version: 1,
		Metadata:   metadata{at.UTC().Format(time.RFC3339), main},
		Components: []component{std},
	}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		d.Components = append(d.Components, component{
			Ref: purl(m.Path, m.Version), Type: "library", Name: m.Path, Version: m.Version, PURL: purl(m.Path, m.Version),
			Properties: []property{{"go:sum", m.Sum}},
		})
	}
	all := dependency{Ref: main.Ref}
	for _, c := range d.Components {
		all.DependsOn = append(all.DependsOn, c.Ref)
	}
	d.Dependencies = []dependency{all}
	sum := main.Hashes[0].Content // the same program has the same number
	d.Serial = fmt.Sprintf("urn:uuid:%s-%s-8%s-8%s-%s", sum[:8], sum[8:12], sum[13:16], sum[17:20], sum[20:32])
	out, err := json.MarshalIndent(d, "", "  ")
	return append(out, '\n'), err
}

func purl(path, version string) string {
	return "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
}

var licenseFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)([._-].*)?$`)

// Licenses returns the texts of licenses and notices of all modules linked into a
// program, and of Go. root is the folder of Go, dirOf returns the folder of a module.
func Licenses(program []byte, root string, dirOf func(path, version string) (string, error)) ([]byte, error) {
	info, err := buildinfo.Read(bytes.NewReader(program))
	if err != nil {
		return nil, fmt.Errorf("bom: the program has no build information: %w", err)
	}
	var b bytes.Buffer
	b.WriteString("eusn-stream contains the parts that are named here, each under its own license.\n")
	if err := writeTexts(&b, "Go "+strings.TrimPrefix(info.GoVersion, "go"), root); err != nil {
		return nil, err
	}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		dir, err := dirOf(m.Path, m.Version)
		if err != nil {
			return nil, err
		}
		if err := writeTexts(&b, m.Path+" "+m.Version, dir); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

// writeTexts writes the texts of a part. A part without a text is an error that needs a
// manual check.
func writeTexts(to io.Writer, title, dir string) error {
	var names []string
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("bom: license of %s: %w", title, err)
	}
	for _, e := range entries {
		if licenseFile.MatchString(e.Name()) && e.Type().IsRegular() {
			names = append(names, e.Name())
		}
	}
	if readme, err := os.ReadFile(filepath.Join(dir, "README.md")); len(names) == 0 && err == nil && bytes.Contains(readme, []byte("Permission is hereby granted")) {
		names = []string{"README.md"} // the license is at its end
	}
	if len(names) == 0 {
		return fmt.Errorf("bom: %s has no file with a license in %s", title, dir)
	}
	slices.Sort(names)
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return fmt.Errorf("bom: license of %s: %w", title, err)
		}
		fmt.Fprintf(to, "\n%s\n%s, %s\n%s\n\n%s\n", strings.Repeat("=", 80), title, name, strings.Repeat("=", 80), bytes.TrimSpace(text))
	}
	return nil
}

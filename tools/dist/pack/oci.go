package pack

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"
)

// Image is what a container is started from, for one architecture: one layer, and
// how to start it.
type Image struct {
	Arch       string // as Go names it: amd64, arm64, arm (ARMv7)
	Files      []File
	User       string // number of user and group: 65532:65532
	Entrypoint []string
	Cmd        []string
	Env        []string // NAME=value
	WorkingDir string
	Volumes    []string // directories that are kept outside of the container
	Ports      []string // 4222/tcp: what may listen; opens nothing
	Labels     map[string]string
	Time       time.Time
}

// The media types that the parts of a layout have.
const (
	ociIndex    = "application/vnd.oci.image.index.v1+json"
	ociManifest = "application/vnd.oci.image.manifest.v1+json"
	ociConfig   = "application/vnd.oci.image.config.v1+json"
	ociLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

type ociPlatform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
	Variant      string `json:"variant,omitempty"`
}

type ociDescriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    *ociPlatform      `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type ociManifests struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     string            `json:"mediaType"`
	Config        *ociDescriptor    `json:"config,omitempty"`
	Layers        []ociDescriptor   `json:"layers,omitempty"`
	Manifests     []ociDescriptor   `json:"manifests,omitempty"`
	Annotations   map[string]string `json:"annotations,omitempty"`
}

type ociImage struct {
	Created string `json:"created"`
	ociPlatform
	Config struct {
		User         string              `json:"User"`
		ExposedPorts map[string]struct{} `json:"ExposedPorts,omitempty"`
		Env          []string            `json:"Env,omitempty"`
		Entrypoint   []string            `json:"Entrypoint"`
		Cmd          []string            `json:"Cmd,omitempty"`
		Volumes      map[string]struct{} `json:"Volumes,omitempty"`
		WorkingDir   string              `json:"WorkingDir"`
		Labels       map[string]string   `json:"Labels,omitempty"`
	} `json:"config"`
	RootFS struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	} `json:"rootfs"`
	History []ociHistory `json:"history"`
}

type ociHistory struct {
	Created   string `json:"created"`
	CreatedBy string `json:"created_by"`
}

// Layout is an image layout in a tar archive, as podman, skopeo, containerd and
// docker (25 or later) load it: one name, which stands for the image of each
// architecture.
func Layout(name string, images []Image) ([]byte, error) {
	l := layout{files: map[string]File{}}
	var index ociManifests
	for _, image := range images {
		d, err := l.image(image)
		if err != nil {
			return nil, fmt.Errorf("pack: image for %s: %w", image.Arch, err)
		}
		index.Manifests = append(index.Manifests, d)
	}
	index.SchemaVersion, index.MediaType = 2, ociIndex
	all := l.json(ociIndex, index)
	all.Annotations = map[string]string{"org.opencontainers.image.ref.name": name}
	l.file("index.json", mustJSON(ociManifests{SchemaVersion: 2, MediaType: ociIndex, Manifests: []ociDescriptor{all}}))
	l.file("oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`))
	var files []File
	for _, f := range l.files {
		files = append(files, f)
	}
	return plainTar("", files, images[0].Time)
}

type layout struct{ files map[string]File }

func (l *layout) file(path string, data []byte) {
	l.files[path] = File{Path: path, Mode: 0o644, Data: data}
}

// blob stores data under its digest.
func (l *layout) blob(mediaType string, data []byte) ociDescriptor {
	sum := fmt.Sprintf("%x", sha256.Sum256(data))
	l.file("blobs/sha256/"+sum, data)
	return ociDescriptor{MediaType: mediaType, Digest: "sha256:" + sum, Size: len(data)}
}

func (l *layout) json(mediaType string, v any) ociDescriptor { return l.blob(mediaType, mustJSON(v)) }

func (l *layout) image(i Image) (ociDescriptor, error) {
	plain, err := plainTar("", i.Files, i.Time)
	if err != nil {
		return ociDescriptor{}, err
	}
	packed, err := compressed(plain)
	if err != nil {
		return ociDescriptor{}, err
	}
	var c ociImage
	c.Created = i.Time.UTC().Format(time.RFC3339)
	c.ociPlatform = ociPlatform{Architecture: i.Arch, OS: "linux"}
	switch i.Arch {
	case "arm":
		c.Variant = "v7"
	case "arm64":
		c.Variant = "v8"
	}
	c.Config.User, c.Config.Entrypoint, c.Config.Cmd, c.Config.WorkingDir = i.User, i.Entrypoint, i.Cmd, i.WorkingDir
	c.Config.Env = i.Env
	c.Config.Volumes, c.Config.ExposedPorts, c.Config.Labels = set(i.Volumes), set(i.Ports), i.Labels
	c.RootFS.Type, c.RootFS.DiffIDs = "layers", []string{fmt.Sprintf("sha256:%x", sha256.Sum256(plain))}
	c.History = []ociHistory{{c.Created, "the release's files"}}
	config := l.json(ociConfig, c)
	d := l.json(ociManifest, ociManifests{SchemaVersion: 2, MediaType: ociManifest, Config: &config, Layers: []ociDescriptor{l.blob(ociLayer, packed)}, Annotations: i.Labels})
	d.Platform = &c.ociPlatform
	return d, nil
}

func set(names []string) map[string]struct{} {
	s := map[string]struct{}{}
	for _, n := range names {
		s[n] = struct{}{}
	}
	return s
}

// mustJSON is JSON of our own types, which always have one.
func mustJSON(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err)
	}
	return b.Bytes()
}

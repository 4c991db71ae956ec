package pack

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	oci "github.com/opencontainers/image-spec/specs-go/v1"
)

// Image is the content of a container for one architecture: one layer, and the command to
// start.
type Image struct {
	Arch       string // as Go names it: amd64, arm64, arm (ARMv7)
	Files      []File
	User       string // number of user and group: 65532:65532
	Entrypoint []string
	Cmd        []string
	Env        []string // NAME=value
	WorkingDir string
	Volumes    []string // directories that are kept outside of the container
	Ports      []string // 4222/tcp: possible listeners; opens no port
	Labels     map[string]string
	Time       time.Time
}

// Layout returns an image layout in a tar archive, as podman, skopeo, containerd and
// docker (25 or later) load it: one name for the images of all architectures.
func Layout(name string, images []Image) ([]byte, error) {
	l := layout{files: map[string]File{}}
	all := oci.Index{Versioned: version2, MediaType: oci.MediaTypeImageIndex}
	for _, image := range images {
		d, err := l.image(image)
		if err != nil {
			return nil, fmt.Errorf("pack: image for %s: %w", image.Arch, err)
		}
		all.Manifests = append(all.Manifests, d)
	}
	named := l.json(oci.MediaTypeImageIndex, all)
	named.Annotations = map[string]string{oci.AnnotationRefName: name}
	l.file(oci.ImageIndexFile, mustJSON(oci.Index{Versioned: version2, MediaType: oci.MediaTypeImageIndex, Manifests: []oci.Descriptor{named}}))
	l.file(oci.ImageLayoutFile, mustJSON(oci.ImageLayout{Version: oci.ImageLayoutVersion}))
	var files []File
	for _, f := range l.files {
		files = append(files, f)
	}
	return plainTar("", files, images[0].Time)
}

// version2 is the version of manifests and indexes.
var version2 = specs.Versioned{SchemaVersion: 2}

type layout struct{ files map[string]File }

func (l *layout) file(path string, data []byte) {
	l.files[path] = File{Path: path, Mode: 0o644, Data: data}
}

// blob stores data under its digest.
func (l *layout) blob(mediaType string, data []byte) oci.Descriptor {
	sum := digest.FromBytes(data)
	l.file("blobs/sha256/"+sum.Encoded(), data)
	return oci.Descriptor{MediaType: mediaType, Digest: sum, Size: int64(len(data))}
}

func (l *layout) json(mediaType string, v any) oci.Descriptor { return l.blob(mediaType, mustJSON(v)) }

func (l *layout) image(i Image) (oci.Descriptor, error) {
	plain, err := plainTar("", i.Files, i.Time)
	if err != nil {
		return oci.Descriptor{}, err
	}
	packed, err := compressed(plain)
	if err != nil {
		return oci.Descriptor{}, err
	}
	created := i.Time.UTC().Truncate(time.Second)
	platform := oci.Platform{Architecture: i.Arch, OS: "linux", Variant: map[string]string{"arm": "v7", "arm64": "v8"}[i.Arch]}
	config := l.json(oci.MediaTypeImageConfig, oci.Image{
		Created: &created, Platform: platform,
		Config: oci.ImageConfig{
			User: i.User, ExposedPorts: set(i.Ports), Env: i.Env, Entrypoint: i.Entrypoint, Cmd: i.Cmd,
			Volumes: set(i.Volumes), WorkingDir: i.WorkingDir, Labels: i.Labels,
		},
		RootFS:  oci.RootFS{Type: "layers", DiffIDs: []digest.Digest{digest.FromBytes(plain)}},
		History: []oci.History{{Created: &created, CreatedBy: "the release's files"}},
	})
	d := l.json(oci.MediaTypeImageManifest, oci.Manifest{
		Versioned: version2, MediaType: oci.MediaTypeImageManifest, Config: config,
		Layers: []oci.Descriptor{l.blob(oci.MediaTypeImageLayerGzip, packed)}, Annotations: i.Labels,
	})
	d.Platform = &platform
	return d, nil
}

func set(names []string) map[string]struct{} {
	s := map[string]struct{}{}
	for _, n := range names {
		s[n] = struct{}{}
	}
	return s
}

// mustJSON encodes our own types, which always have a JSON form.
func mustJSON(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err)
	}
	return b.Bytes()
}

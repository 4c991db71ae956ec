package pack

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io"
	"time"
)

// Tar returns a compressed archive of the files. Each path begins with prefix: "./" in a
// deb, the name of a folder in a portable archive.
func Tar(prefix string, files []File, at time.Time) ([]byte, error) {
	plain, err := plainTar(prefix, files, at)
	if err != nil {
		return nil, err
	}
	return compressed(plain)
}

func plainTar(prefix string, files []File, at time.Time) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range sorted(files) {
		h := &tar.Header{
			Typeflag: tar.TypeReg, Name: prefix + f.Path, Mode: int64(f.Mode.Perm()), Size: int64(len(f.Data)),
			Uid: f.Owner, Gid: f.Owner, ModTime: at, Format: tar.FormatGNU,
		}
		if f.Mode.IsDir() {
			h.Typeflag, h.Name = tar.TypeDir, h.Name+"/"
		}
		if f.Owner == 0 {
			h.Uname, h.Gname = "root", "root"
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.Data); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}

func compressed(data []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	err = w.Close()
	return b.Bytes(), err
}

// Zip returns an archive of the files, for systems without tar. Each path begins with
// prefix.
func Zip(prefix string, files []File, at time.Time) ([]byte, error) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, f := range sorted(files) {
		h := &zip.FileHeader{Name: prefix + f.Path, Method: zip.Deflate, Modified: at}
		if f.Mode.IsDir() {
			h.Name, h.Method = h.Name+"/", zip.Store
		}
		h.SetMode(f.Mode)
		to, err := w.CreateHeader(h)
		if err != nil {
			return nil, err
		}
		if _, err := io.Copy(to, bytes.NewReader(f.Data)); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}

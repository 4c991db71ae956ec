package service

import (
	"fmt"
	"os"
	"sync"
)

const (
	logBytes = 10 << 20
	logKept  = 4 // older files; NAME.log.1 is the newest
)

// logFile is a log that starts a new file when the current file is full, and keeps some older
// files.
type logFile struct {
	path  string
	limit int64
	mu    sync.Mutex
	file  *os.File
	size  int64
}

func openLog(path string, limit int64) (*logFile, error) {
	l := &logFile{path: path, limit: limit}
	return l, l.openFile()
}

func (l *logFile) openFile() error {
	f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return err
	}
	l.file, l.size = f, info.Size()
	return nil
}

// Write appends lines. If the older file cannot be renamed, for example because another program
// reads it, the current file grows: a long log is better than none.
func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		if err := l.openFile(); err != nil {
			return 0, err
		}
	}
	if l.size > 0 && l.size+int64(len(p)) > l.limit {
		l.file.Close()
		l.file = nil
		for n := logKept - 1; n > 0; n-- {
			_ = os.Rename(fmt.Sprint(l.path, ".", n), fmt.Sprint(l.path, ".", n+1)) // the file may not exist
		}
		_ = os.Rename(l.path, l.path+".1")
		if err := l.openFile(); err != nil {
			return 0, err
		}
	}
	n, err := l.file.Write(p)
	l.size += int64(n)
	return n, err
}

func (l *logFile) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}

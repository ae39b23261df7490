// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package support

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"os"
	"time"
)

// archiveFile is a file of an archive.
type archiveFile struct {
	name, content string

	// about describes the content of the file, for the README.
	about string
}

// writeArchive writes files into a folder of a new archive. It does not replace a file.
func writeArchive(path, folder string, files []archiveFile, now time.Time) (err error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, file.Close()); err != nil {
			_ = os.Remove(path)
		}
	}()
	compressed := gzip.NewWriter(file)
	archive := tar.NewWriter(compressed)
	for i := range files {
		header := &tar.Header{Name: folder + "/" + files[i].name, Mode: 0o600, Size: int64(len(files[i].content)),
			ModTime: now, Typeflag: tar.TypeReg}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := archive.Write([]byte(files[i].content)); err != nil {
			return err
		}
	}
	return errors.Join(archive.Close(), compressed.Close())
}

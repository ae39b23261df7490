// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"archive/tar"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
)

const (
	// manifestsFolder is the folder of an image that is a plain bundle.
	manifestsFolder = "manifests"
	// whiteout begins the names of files that take away what layers below have; opaque takes away all of a folder.
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
	// maxRoots bounds what is remembered of an image for a message.
	maxRoots = 100
)

// image is the folder /manifests of a container image, layer by layer, and what folders there are in it, by
// their names from the root; folders have no content. Of the rest of the image only the names at its root are kept.
type image struct {
	*budget
	content map[string]*imageEntry
	roots   map[string]bool
}

type imageEntry struct {
	isFolder bool
	data     []byte
}

func newImage(limits Limits) *image {
	return &image{budget: newBudget(limits, ErrInvalidManifests), content: map[string]*imageEntry{}, roots: map[string]bool{}}
}

// layer applies a layer on top of those before. What it takes away is taken away from them, wherever in it that is said.
func (i *image) layer(packed []byte) error {
	unzipped, err := i.unzip(packed)
	if err != nil {
		return err
	}
	added := map[string]*imageEntry{}
	var removed []string
	err = i.walk(unzipped, "a layer", func(header *tar.Header, from io.Reader) error {
		name := strings.TrimPrefix(path.Clean("/"+header.Name), "/")
		folder, base := path.Split(name)
		folder = strings.TrimSuffix(folder, "/")
		isWhiteout := strings.HasPrefix(base, whiteout)
		if folder == "" && !isWhiteout || folder != "" && !isWithin(name, manifestsFolder) {
			i.sees(name)
		}
		switch {
		case isWhiteout && folder == "" && base == opaque:
			removed = append(removed, manifestsFolder)
		case isWhiteout && base == opaque && isWithin(folder, manifestsFolder):
			removed = append(removed, folder+"/")
		case isWhiteout && (folder == "" || isWithin(folder, manifestsFolder)):
			removed = append(removed, path.Join(folder, strings.TrimPrefix(base, whiteout)))
		case isWithin(name, manifestsFolder):
			return i.entry(added, name, header, from)
		default:
			return nil
		}
		return i.count()
	})
	if err != nil {
		return err
	}
	for _, name := range removed {
		i.remove(name)
	}
	for name, entry := range added {
		i.put(name, entry)
	}
	return nil
}

// entry reads an entry of a layer.
func (i *image) entry(added map[string]*imageEntry, name string, header *tar.Header, from io.Reader) error {
	if err := i.count(); err != nil {
		return err
	}
	// The root of an image is "/": names that begin with it are no others.
	if _, err := safeName(strings.TrimPrefix(header.Name, "/"), i.invalid); err != nil {
		return err
	}
	switch {
	case header.FileInfo().IsDir():
		added[name] = &imageEntry{isFolder: true}
		return nil
	case header.Typeflag != tar.TypeReg:
		return fmt.Errorf("%w: %q is a link or device; only regular files are supported", i.invalid, clip(name))
	}
	data, err := i.read(header, from, i.limits.FileBytes)
	added[name] = &imageEntry{data: data}
	return err
}

func (i *image) count() error {
	if i.entries++; i.entries > i.limits.Files {
		return i.tooMany()
	}
	return nil
}

func (i *image) sees(name string) {
	if first, _, _ := strings.Cut(name, "/"); first != "" && len(i.roots) < maxRoots {
		i.roots[first] = true
	}
}

// remove takes away what has a name and all below it; only what is below it if the name ends with "/".
func (i *image) remove(name string) {
	folder := strings.TrimSuffix(name, "/") + "/"
	maps.DeleteFunc(i.content, func(entry string, _ *imageEntry) bool {
		return entry == name || strings.HasPrefix(entry, folder)
	})
}

// put adds an entry. A file takes the place of a folder of its name, with all that is in it; a folder that of a file.
func (i *image) put(name string, entry *imageEntry) {
	if before := i.content[name]; before != nil && before.isFolder {
		if entry.isFolder {
			return
		}
		i.remove(name)
	}
	i.content[name] = entry
}

// tree returns the files of a plain bundle, which has no folders below /manifests.
func (i *image) tree() (*tree, error) {
	root := i.content[manifestsFolder]
	if root != nil && !root.isFolder || root == nil && len(i.content) == 0 {
		return nil, fmt.Errorf("%w: the image is not a plain bundle, because it has no folder /%s; it has %s",
			ErrUnsupported, manifestsFolder, listSome(slices.Sorted(maps.Keys(i.roots))))
	}
	out := &tree{budget: i.budget, files: map[string][]byte{}}
	for _, name := range slices.Sorted(maps.Keys(i.content)) {
		if name == manifestsFolder {
			continue
		}
		below := strings.TrimPrefix(name, manifestsFolder+"/")
		if i.content[name].isFolder || strings.Contains(below, "/") {
			return nil, fmt.Errorf("%w: %q is in a subfolder of /%s, which a plain bundle must not have", i.invalid, clip(name), manifestsFolder)
		}
		out.files[name] = i.content[name].data
	}
	return out, nil
}

// isWithin tells whether a name is that of a folder or of something below it.
func isWithin(name, folder string) bool {
	return name == folder || strings.HasPrefix(name, folder+"/")
}

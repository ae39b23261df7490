// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package unpack

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
)

const (
	// manifestsFolder is the folder with the manifests in an image that is a plain bundle.
	manifestsFolder = "manifests"
	// A file with the prefix whiteout removes an entry of lower layers. A file with the name opaque removes all entries
	// of its folder.
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
	// maxRoots limits the number of root entries of an image that are kept for an error message.
	maxRoots = 100
)

// image holds the folder /manifests of a container image, while the layers are read one by one. content has files and
// empty folders by their name from the root. roots has only the names of the other root entries.
type image struct {
	*budget
	content map[string]*imageEntry
	roots   map[string]bool
}

type imageEntry struct {
	isFolder bool
	data     []byte
}

// Image returns the files of the folder /manifests of a container image with the given layers.
func Image(layers [][]byte, limits Limits, memory *Memory) (*Tree, error) {
	all := &image{budget: newBudget(limits, ErrInvalidManifests, memory), content: map[string]*imageEntry{},
		roots: map[string]bool{}}
	for _, layer := range layers {
		if err := all.layer(layer); err != nil {
			return nil, err
		}
	}
	return all.tree()
}

// NotPlain returns the error for an image that is too large to be a plain bundle. Images of programs often are. err
// says which limit the image exceeds.
func NotPlain(err error) error {
	return fmt.Errorf("%w: the image is not a plain bundle: %s", ErrUnsupported, err.Error())
}

// layer adds a layer on top of the previous layers. A whiteout removes only entries of lower layers, so the position of
// the whiteout in the layer does not matter.
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
			i.recordRoot(name)
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
	if errors.Is(err, ErrTooLarge) && i.remaining <= 0 {
		// The files in the folder are within their own limits, so most of the content is outside of the folder.
		return NotPlain(err)
	}
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

func (i *image) entry(added map[string]*imageEntry, name string, header *tar.Header, from io.Reader) error {
	if err := i.count(); err != nil {
		return err
	}
	// The root of an image is "/", so a leading "/" is allowed.
	if _, err := safeName(strings.TrimPrefix(header.Name, "/"), i.invalid); err != nil {
		return err
	}
	switch {
	case header.FileInfo().IsDir():
		added[name] = &imageEntry{isFolder: true}
		return nil
	case header.Typeflag != tar.TypeReg:
		return i.notRegular(name)
	}
	data, err := i.read(header, from, i.limits.FileBytes)
	added[name] = &imageEntry{data: data}
	return err
}

func (i *image) recordRoot(name string) {
	if first, _, _ := strings.Cut(name, "/"); first != "" && len(i.roots) < maxRoots {
		i.roots[first] = true
	}
}

// remove removes an entry and all entries below it. If the name ends with "/", remove keeps the entry itself.
func (i *image) remove(name string) {
	folder := strings.TrimSuffix(name, "/") + "/"
	maps.DeleteFunc(i.content, func(entry string, _ *imageEntry) bool {
		return entry == name || strings.HasPrefix(entry, folder)
	})
}

// put adds an entry. A new file replaces a folder of the same name, with all files in the folder. A new folder replaces
// a file.
func (i *image) put(name string, entry *imageEntry) {
	if before := i.content[name]; before != nil && before.isFolder {
		if entry.isFolder {
			return
		}
		i.remove(name)
	}
	i.content[name] = entry
}

// tree returns the files of a plain bundle. It returns an error if /manifests has a subfolder.
func (i *image) tree() (*Tree, error) {
	root := i.content[manifestsFolder]
	if root != nil && !root.isFolder || root == nil && len(i.content) == 0 {
		return nil, fmt.Errorf("%w: the image is not a plain bundle, because it has no folder /%s; it has %s",
			ErrUnsupported, manifestsFolder, listSome(slices.Sorted(maps.Keys(i.roots))))
	}
	out := &Tree{budget: i.budget, Files: map[string][]byte{}}
	for _, name := range slices.Sorted(maps.Keys(i.content)) {
		if name == manifestsFolder {
			continue
		}
		below := strings.TrimPrefix(name, manifestsFolder+"/")
		if i.content[name].isFolder || strings.Contains(below, "/") {
			return nil, fmt.Errorf("%w: %q is in a subfolder of /%s, which a plain bundle must not have", i.invalid, Clip(name),
				manifestsFolder)
		}
		out.Files[name] = i.content[name].data
	}
	return out, nil
}

// isWithin is true if name is the folder or below the folder.
func isWithin(name, folder string) bool {
	return name == folder || strings.HasPrefix(name, folder+"/")
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package kustomize

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle/documents"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle/unpack"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/sandbox"
)

// taskBuild is the name of the task that builds kustomizations.
const taskBuild = "kustomization/build"

// Tasks returns the tasks that a Kustomizer runs in other processes. Pass them to [sandbox.Serve].
func Tasks() sandbox.Tasks {
	return sandbox.Tasks{taskBuild: {Decode: decodeFolders, Run: runBuild}}
}

// Build builds the kustomization in a folder of the user. It returns the objects as JSON, in the order of kustomize.
// The rules for kustomizations in artifacts apply, see the contract of this package. Build works in this process,
// because the files belong to the user.
func Build(files map[string][]byte, folder string, limits unpack.Limits) (objects [][]byte, err error) {
	// A panic in kustomize becomes an error, as for artifacts.
	defer func() {
		if caught := recover(); caught != nil {
			objects, err = nil, fmt.Errorf("%w: building the kustomization in %s failed", unpack.ErrInvalidManifests,
				folderName(folder))
		}
	}()
	limits = limits.WithDefaults()
	r := documents.NewReader(limits, nil)
	k := New(files, limits, Builder{Ctx: context.Background(), Runner: sandbox.InProcess(Tasks())})
	if _, err := k.AddTo(r, folder); err != nil {
		return nil, err
	}
	for _, one := range r.Objects {
		objects = append(objects, one.Content)
	}
	return objects, nil
}

// Builder holds the settings for builds in other processes.
type Builder struct {
	// Ctx bounds the builds.
	Ctx context.Context
	// Runner runs the tasks of this package.
	Runner sandbox.Runner
	// Tenant is the tenant of the release. Tenants have equal shares of the runner.
	Tenant string
	// Memory reserves memory for the output of the builds.
	Memory *unpack.Memory
}

// buildRequest is the input of the task. The requests for all folders of an artifact share the files.
type buildRequest struct {
	Folder string
}

// buildFiles are the files of an artifact and the limits of the build.
type buildFiles struct {
	Files  map[string][]byte
	Limits unpack.Limits
}

// built is the output of the task.
type built struct {
	// Objects are the objects as JSON.
	Objects [][]byte
	// IsExplicitlyEmpty is true if the kustomization has an explicitly empty list of resources.
	IsExplicitlyEmpty bool
	// Kind and Text describe an error. Kind is a key of buildErrors.
	Kind, Text string
}

// buildErrors are the errors that a task can return to its caller.
var buildErrors = map[string]error{"manifests": unpack.ErrInvalidManifests, "size": unpack.ErrTooLarge}

// buildError is an error returned by a task.
type buildError struct {
	kind error
	text string
}

func (e *buildError) Error() string { return e.text }
func (e *buildError) Unwrap() error { return e.kind }

// build builds the kustomization in a folder in another process.
func (k *Kustomizer) build(folder string) (*built, error) {
	input, err := toGob(buildRequest{Folder: folder})
	if err != nil {
		return nil, err
	}
	request := sandbox.Request{Task: taskBuild, Tenant: k.builder.Tenant, HoldsMemory: true, Input: input,
		Shared: &sandbox.Shared{
			Key:  k.key(),
			Data: func() ([]byte, error) { return toGob(buildFiles{Files: k.check.files, Limits: k.check.limits}) },
		}}
	output, err := k.builder.Runner.Run(k.builder.Ctx, request)
	var limited *sandbox.LimitError
	if errors.As(err, &limited) {
		// The text already contains the folder.
		ended := *limited
		ended.Doing = ""
		return nil, fmt.Errorf("%w: building the kustomization in %s was stopped: %w; make its output smaller, or %s",
			unpack.ErrLimit, folderName(folder), &ended, ended.Remedy())
	}
	if err != nil {
		return nil, fmt.Errorf("building the kustomization in %s: %w", folderName(folder), err)
	}
	// The output is in memory twice while it is decoded.
	if err := k.builder.Memory.Parse(2 * int64(len(output))); err != nil {
		return nil, err
	}
	result := &built{}
	if err := gob.NewDecoder(bytes.NewReader(output)).Decode(result); err != nil {
		return nil, fmt.Errorf("reading the output of the kustomization in %s: %w", folderName(folder), err)
	}
	if result.Text != "" {
		return nil, &buildError{kind: buildErrors[result.Kind], text: result.Text}
	}
	return result, nil
}

// key identifies the files and the limits.
func (k *Kustomizer) key() string {
	if k.digest == "" {
		digest := sha256.New()
		fmt.Fprintf(digest, "%+v", k.check.limits)
		for _, name := range slices.Sorted(maps.Keys(k.check.files)) {
			for _, part := range [][]byte{[]byte(name), k.check.files[name]} {
				digest.Write(binary.AppendUvarint(nil, uint64(len(part))))
				digest.Write(part)
			}
		}
		k.digest = string(digest.Sum(nil))
	}
	return k.digest
}

func toGob(value any) ([]byte, error) {
	var buffer bytes.Buffer
	err := gob.NewEncoder(&buffer).Encode(value)
	return buffer.Bytes(), err
}

// folders are the files of an artifact inside the task.
type folders struct {
	check *check
	// files is the file system for kustomize. It is nil before the first build.
	files filesys.FileSystem
}

func decodeFolders(data []byte) (any, error) {
	var received buildFiles
	if err := gob.NewDecoder(bytes.NewReader(data)).Decode(&received); err != nil {
		return nil, err
	}
	return &folders{check: newCheck(received.Files, received.Limits)}, nil
}

func runBuild(work *sandbox.Work) ([]byte, error) {
	limitCopies()
	all, ok := work.Shared.(*folders)
	if !ok {
		return nil, errors.New("there are no files")
	}
	var request buildRequest
	if err := gob.NewDecoder(bytes.NewReader(work.Input)).Decode(&request); err != nil {
		return nil, err
	}
	work.Note("the kustomization in " + folderName(request.Folder))
	result, err := all.build(request.Folder)
	if err != nil {
		result = &built{Text: err.Error()}
		for name, kind := range buildErrors {
			if errors.Is(err, kind) {
				result.Kind = name
			}
		}
	}
	return toGob(result)
}

// limitCopies sets a limit in kustomize's patch library: the bytes that the copy operations of one JSON patch may add.
// The limit is the maximum size of an object.
var limitCopies = sync.OnceFunc(func() { jsonpatch.AccumulatedCopySizeLimit = 3 << 20 })

// build checks and builds the kustomization in a folder.
func (f *folders) build(folder string) (*built, error) {
	cost, err := f.check.folder(folder)
	if err != nil {
		return nil, err
	}
	if err := cost.within(f.check.limits); err != nil {
		return nil, err
	}
	if f.files == nil {
		f.files = filesys.MakeFsInMemory()
		for name, data := range f.check.files {
			if err := f.files.WriteFile("/"+name, data); err != nil {
				return nil, fmt.Errorf("%w: %q is both a file and a folder", unpack.ErrInvalidManifests, unpack.Clip(name))
			}
		}
	}
	options := krusty.MakeDefaultOptions()
	options.LoadRestrictions = types.LoadRestrictionsRootOnly
	options.PluginConfig = types.DisabledPluginConfig()
	made, err := krusty.MakeKustomizer(options).Run(f.files, "/"+folder)
	if err != nil {
		return nil, fmt.Errorf("%w: building the kustomization in %s failed: %s", unpack.ErrInvalidManifests,
			folderName(folder), reasonOf(err))
	}
	result := &built{IsExplicitlyEmpty: cost.isExplicitlyEmpty && made.Size() == 0}
	weighed := documents.NewReader(f.check.limits, nil)
	for i, one := range made.Resources() {
		content, err := one.MarshalJSON()
		if err != nil {
			return nil, fmt.Errorf("%w: the output of the kustomization in %s contains something that is not an object",
				unpack.ErrInvalidManifests, folderName(folder))
		}
		if err := weighed.Weigh(objectPlace(folder, i), content); err != nil {
			return nil, err
		}
		result.Objects = append(result.Objects, content)
	}
	return result, nil
}

// objectPlace describes the position of an object in the output of a kustomization.
func objectPlace(folder string, i int) string {
	return fmt.Sprintf("object %d of the kustomization in %s", i, folderName(folder))
}

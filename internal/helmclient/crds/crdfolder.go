// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package crds

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"helm.sh/helm/v3/pkg/chart"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytelru"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/actionmemory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/manifestweight"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/recordcodec"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/yamlweight"
)

const (
	group   = "apiextensions.k8s.io"
	crdKind = "CustomResourceDefinition"
)

// Object is an object in a chart's folder crds. It is read only.
type Object struct {
	// file is the name of the file that contains the object.
	file string
	kind schema.GroupVersionKind
	// namespace is empty if the object has none.
	namespace, Name string
	// data is the object as JSON.
	data []byte
	// Serves are the kinds that the object defines; empty if it is not a CustomResourceDefinition.
	Serves []schema.GroupVersionKind
}

// IsCRD reports whether the object is a CustomResourceDefinition.
func (o *Object) IsCRD() bool {
	return o.kind.Group == group && o.kind.Version == "v1" && o.kind.Kind == crdKind
}

// InFolder returns a function that reports whether the folders crds of a chart, or of its dependencies, may have an
// object with a name. It does not parse the files, so a file that only mentions the name counts, too.
func InFolder(chrt *chart.Chart) func(name string) bool {
	files := chrt.CRDObjects()
	return func(name string) bool {
		return slices.ContainsFunc(files, func(crd chart.CRD) bool { return bytes.Contains(crd.File.Data, []byte(name)) })
	}
}

// Read returns the objects in the files of crds folders, in their order. An error has the kind
// [helmerr.ErrInvalidChart]. Read refuses files that take too much memory together. Before it parses a file, it
// reserves memory in the lease, and returns the errors of the lease. A nil Cache keeps nothing.
func (c *Cache) Read(lease *actionmemory.Lease, files []chart.CRD) ([]*Object, error) {
	var objects []*Object
	var budget manifestweight.Budget
	for _, crd := range files {
		parsed, err := c.of(lease, crd.File, &budget)
		switch {
		case errors.Is(err, helmerr.ErrBusy), errors.Is(err, helmerr.ErrTooLarge):
			return nil, err
		case err != nil:
			return nil, helmerr.New(helmerr.ErrInvalidChart, "%s: %s", crd.Filename, err)
		}
		objects = append(objects, parsed...)
	}
	return objects, nil
}

const (
	// MaxCacheBytes is the default bound of the memory for parsed CRDs.
	MaxCacheBytes = 32 << 20
	// objectOverhead is the approximate size of an Object without its data, in bytes.
	objectOverhead = 256
)

// Cache keeps the most recently used parsed files by digest. HelmOp installs a chart in many clusters, and some charts
// have megabytes of CRDs. It is safe for concurrent use.
type Cache struct {
	files *bytelru.Cache[[sha256.Size]byte, parsedFile]
}

// parsedFile has the objects of a file, and the weight of its text.
type parsedFile struct {
	objects []*Object
	weight  yamlweight.Weight
}

// NewCache returns an empty Cache. limit is its maximum size in bytes.
func NewCache(limit int64) *Cache {
	return &Cache{files: bytelru.New[[sha256.Size]byte, parsedFile](limit)}
}

// of takes the weight of a file from a budget and returns the objects of the file. It parses the file if the cache does
// not have it.
func (c *Cache) of(lease *actionmemory.Lease, file *chart.File, budget *manifestweight.Budget) ([]*Object, error) {
	if c == nil {
		parsed, err := parse(lease, file, budget)
		return parsed.objects, err
	}
	digest := sha256.New()
	recordcodec.WriteBytes(digest, []byte(file.Name))
	recordcodec.WriteBytes(digest, file.Data)
	key := [sha256.Size]byte(digest.Sum(nil))
	if known, ok := c.files.Get(key); ok {
		return known.objects, budget.Add(known.weight)
	}
	parsed, err := parse(lease, file, budget)
	if err != nil {
		return nil, err
	}
	size := int64(0)
	for _, object := range parsed.objects {
		size += objectOverhead + int64(len(object.data))
	}
	c.files.Put(key, parsed, size)
	return parsed.objects, nil
}

// parse takes the weight of a file from a budget and parses the file.
func parse(lease *actionmemory.Lease, file *chart.File, budget *manifestweight.Budget) (parsedFile, error) {
	text := string(file.Data)
	weight, err := lease.Weigh(text)
	if err != nil {
		return parsedFile{}, err
	}
	if err := budget.Add(weight); err != nil {
		return parsedFile{}, err
	}
	end, err := lease.Parse(text, false)
	if err != nil {
		return parsedFile{}, err
	}
	defer end()
	objects, err := parseCRDFile(file)
	return parsedFile{objects, weight}, err
}

func parseCRDFile(file *chart.File) ([]*Object, error) {
	var objects []*Object
	reader := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(file.Data)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		data, err := yaml.ToJSON(document)
		if err != nil {
			return nil, fmt.Errorf("not YAML: %w", err)
		}
		object, err := parseCRDObject(data)
		if err != nil {
			return nil, err
		}
		if object != nil {
			object.file = file.Name
			objects = append(objects, object)
		}
	}
}

// parseCRDObject returns the object of a YAML document as JSON; nil if the document is empty.
func parseCRDObject(data []byte) (*Object, error) {
	if data = bytes.TrimSpace(data); len(data) == 0 || string(data) == "null" {
		return nil, nil
	}
	var head struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Metadata   struct {
			Name      string `json:"name"`
			Namespace string `json:"namespace"`
		} `json:"metadata"`
		Spec json.RawMessage `json:"spec"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, errors.New("a document is not a Kubernetes object")
	}
	groupVersion, err := schema.ParseGroupVersion(head.APIVersion)
	if err != nil || head.APIVersion == "" || head.Kind == "" || head.Metadata.Name == "" {
		return nil, errors.New("an object lacks apiVersion, kind or metadata.name")
	}
	object := &Object{kind: groupVersion.WithKind(head.Kind), namespace: head.Metadata.Namespace, Name: head.Metadata.Name,
		data: data}
	if !object.IsCRD() {
		return object, nil
	}
	var spec struct {
		Group    string                `json:"group"`
		Names    struct{ Kind string } `json:"names"`
		Versions []struct {
			Name   string `json:"name"`
			Served bool   `json:"served"`
		} `json:"versions"`
	}
	if err := json.Unmarshal(head.Spec, &spec); err != nil {
		return nil, fmt.Errorf("the CustomResourceDefinition %q is invalid", head.Metadata.Name)
	}
	for _, version := range spec.Versions {
		if version.Served {
			object.Serves = append(object.Serves,
				schema.GroupVersionKind{Group: spec.Group, Version: version.Name, Kind: spec.Names.Kind})
		}
	}
	return object, nil
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/redaction"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/references"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/templating"
)

// ClusterReference is an object of one Cluster. Its name comes from a template.
type ClusterReference struct {
	Kind, Name string

	// version is the version of the object; empty if it does not exist.
	version string
}

// sources are the objects with values to which a HelmOp refers.
type sources struct {
	// named are the references whose names are templates.
	named map[templating.SourceID]namedSource

	// missing holds, by override, the first object with a fixed name that does not exist. The Clusters of the override
	// then fail.
	missing map[int]missingSource

	// secrets are the contents of Secrets with fixed names, by override.
	secrets map[int][]secretContent

	// hashes are the hashes of all contents of objects with fixed names, and bytes is their total size.
	hashes map[templating.SourceID][sha256.Size]byte
	bytes  int
}

// namedSource is a reference whose name is a template, and its field.
type namedSource struct {
	addonsv1.ValuesReference
	field string
}

// missingSource is a reference to an object, or to a key in it, that does not exist.
type missingSource struct {
	index int
	err   error
}

// description returns the part of the sources that a templating.Spec does not contain. It is a part of the digest of a
// HelmOp revision, so it has no messages: a message may change in the next version of HelmOp.
func (s *sources) description() []string {
	var described []string
	for id, source := range s.named {
		described = append(described, fmt.Sprintf("%d %d %s %q %t", id.Override, id.Index, source.Kind, source.Key,
			source.Optional))
	}
	for id, hash := range s.hashes {
		described = append(described, fmt.Sprintf("%d %d %x", id.Override, id.Index, hash))
	}
	for override, missing := range s.missing {
		what := "object"
		if errors.Is(missing.err, references.ErrKeyNotFound) {
			what = "key"
		}
		described = append(described, fmt.Sprintf("%d %d missing %s", override, missing.index, what))
	}
	slices.Sort(described)
	return described
}

// missingOf returns the error for a missing object that a Cluster with these overrides needs; nil
// if there is none.
func (s *sources) missingOf(overrides []int) error {
	for _, i := range overrides {
		if missing, ok := s.missing[i]; ok {
			return missing.err
		}
	}
	return nil
}

// secretsOf returns the contents of Secrets with fixed names for a Cluster with these overrides.
func (s *sources) secretsOf(overrides []int) []secretContent {
	secrets := slices.Clone(s.secrets[templating.OfSpec])
	for _, i := range overrides {
		secrets = append(secrets, s.secrets[i]...)
	}
	return secrets
}

// readSources reads the objects with fixed names in a list of references, and records the
// references whose names are templates.
func (r *Renderer) readSources(ctx context.Context, helmOp *addonsv1.HelmOp, refs []addonsv1.ValuesReference,
	field string, override int,
	into *sources,
) ([]templating.ValuesSource, error) {
	var read []templating.ValuesSource
	for i := range refs {
		ref := &refs[i]
		at := fmt.Sprintf("%s[%d]", field, i)
		source := templating.ValuesSource{Origin: originOf(ref, helmOp.Namespace, ref.Name), TargetPath: ref.TargetPath}
		if references.IsNameTemplate(helmOp, ref) {
			source.Name = ref.Name
			into.named[templating.SourceID{Override: override, Index: i}] = namedSource{ValuesReference: *ref, field: at}
			read = append(read, source)
			continue
		}
		data, err := r.references.ReadKey(ctx, ref.Kind, helmOp.Namespace, ref.Name, ref.Key)
		switch {
		case errors.Is(err, references.ErrReferenceNotFound):
			source.Absent = true
			if _, ok := into.missing[override]; !ok && !ref.Optional {
				into.missing[override] = missingSource{index: i, err: fmt.Errorf("%s: %w", at, err)}
			}
		case err != nil:
			return nil, fmt.Errorf("%w: %s: %w", ErrObjectRead, at, err)
		default:
			// The sum is checked before the next object is read: each may have 1 MiB.
			if into.bytes += len(data); into.bytes > templating.MaxSourceBytes {
				return nil, templating.TooManyBytes(at, templating.MaxSourceBytes)
			}
			source.Data = data
			into.hashes[templating.SourceID{Override: override, Index: i}] = sha256.Sum256(data)
			into.secrets[override] = appendSecret(into.secrets[override], ref, data)
		}
		read = append(read, source)
	}
	return read, nil
}

// originOf returns the name of a key of an object for messages. It is a part of the digest of a HelmOp revision, see
// [templating.Spec], so its format must not change.
func originOf(ref *addonsv1.ValuesReference, namespace, name string) string {
	return fmt.Sprintf("%s %s/%s key %s", ref.Kind, namespace, name, ref.Key)
}

// secretContent is the content of one key in a Secret.
type secretContent struct {
	data []byte
	// isText means that the values contain the whole data as one text.
	isText bool
}

// appendSecret appends the data of a reference if they come from a Secret.
func appendSecret(secrets []secretContent, ref *addonsv1.ValuesReference, data []byte) []secretContent {
	if ref.Kind != apiutil.KindSecret {
		return secrets
	}
	return append(secrets, secretContent{data: data, isText: ref.TargetPath != ""})
}

// values returns the values and keys that messages must not show. They have the form that the chart gets. If the data
// cannot be parsed, the whole data are secret.
func (c secretContent) values() []any {
	if !c.isText {
		if values, err := templating.ParseValues(c.data); err == nil {
			return redaction.AppendKeys([]any{values}, values)
		}
	}
	// A program may print the value without its trailing line break.
	return []any{string(c.data), strings.TrimSpace(string(c.data))}
}

// clusterValues are the values that were read for one Cluster.
type clusterValues struct {
	contents   templating.Contents
	references []ClusterReference
	secrets    []secretContent
}

// readClusterSources reads the objects that belong to a Cluster. The result contains the references to all objects,
// even if an object is missing.
func (r *Renderer) readClusterSources(ctx context.Context, p *Program, objects *clusterview.Objects, overrides []int,
	title string,
) (clusterValues, error) {
	var read clusterValues
	found, err := p.ClusterSources(ctx, objects.Data, overrides...)
	if err != nil {
		return read, err
	}
	versions := make(map[ClusterReference]string, len(found))
	for _, source := range found {
		object := ClusterReference{Kind: p.sources.named[source.SourceID].Kind, Name: source.Name}
		if _, ok := versions[object]; ok {
			continue
		}
		if versions[object], err = r.references.Version(ctx, object.Kind, p.namespace, object.Name); err != nil {
			return read, fmt.Errorf("%w: %w", ErrObjectRead, err)
		}
		read.references = append(read.references,
			ClusterReference{Kind: object.Kind, Name: object.Name, version: versions[object]})
	}
	read.contents = make(templating.Contents, len(found))
	size := 0
	for _, source := range found {
		ref := p.sources.named[source.SourceID]
		version := versions[ClusterReference{Kind: ref.Kind, Name: source.Name}]
		data, err := r.references.ReadClusterKey(ctx, ref.Kind, p.namespace, source.Name, ref.Key, version)
		isMissing := errors.Is(err, references.ErrReferenceNotFound)
		switch {
		case isMissing && ref.Optional:
			continue
		case err != nil:
			err = fmt.Errorf("%s for Cluster %q: %w", ref.field, title, err)
			if !isMissing {
				err = fmt.Errorf("%w: %w", ErrObjectRead, err)
			}
			return read, err
		}
		if size += len(data); size > templating.MaxClusterBytes {
			return read, templating.TooManyBytes(ref.field, templating.MaxClusterBytes)
		}
		read.contents[source.SourceID] = templating.Content{Origin: originOf(&ref.ValuesReference, p.namespace, source.Name),
			Data: data}
		read.secrets = appendSecret(read.secrets, &ref.ValuesReference, data)
	}
	return read, nil
}

// isCurrent reports whether the objects of a Cluster still have the versions that were read.
func (r *Renderer) isCurrent(ctx context.Context, p *Program, known []ClusterReference) bool {
	for _, object := range known {
		version, err := r.references.Version(ctx, object.Kind, p.namespace, object.Name)
		if err != nil || version != object.version {
			return false
		}
	}
	return true
}

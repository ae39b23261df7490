// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rendering

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/preview"
)

// offline prints the objects of the HelmOp for the Cluster in a file.
func (p *previewing) offline(ctx context.Context) (err error) {
	data, err := readFile(p.clusterFile, p.Streams.In)
	if err != nil {
		return kube.Usagef("--cluster-file: %v", err)
	}
	objects, err := objectsIn(data)
	if err != nil {
		return kube.Usagef("--cluster-file %s: %v", p.clusterFile, err)
	}
	at := slices.IndexFunc(objects, func(object *unstructured.Unstructured) bool {
		return object.GroupVersionKind() == clusterv1.GroupVersion.WithKind(apiutil.ClusterKind)
	})
	if at < 0 {
		return kube.Usagef("--cluster-file %s: it has no Cluster of %s", p.clusterFile, clusterv1.GroupVersion)
	}
	helmOp := &addonsv1.HelmOp{}
	if err := p.decode(&p.Base, helmOp, objects[at].GetNamespace()); err != nil {
		return err
	}
	if err := p.change(&p.Base, helmOp); err != nil {
		return err
	}
	options, end, err := p.Source.options()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	scheme := runtime.NewScheme()
	if err := errors.Join(addonsv1.AddToScheme(scheme), clusterv1.AddToScheme(scheme),
		corev1.AddToScheme(scheme)); err != nil {
		return err
	}
	for _, object := range objects {
		object.SetNamespace(cmp.Or(object.GetNamespace(), helmOp.Namespace))
	}
	options.Client, options.Resolves = preview.NewObjects(scheme, objects), true
	previewer := preview.New(options)
	release, err := previewer.Release(ctx, helmOp, client.ObjectKeyFromObject(objects[at]))
	if err != nil {
		return err
	}
	if !release.IsSelected {
		p.Note("warning: HelmOp %q does not select Cluster %q; this is what it would install there", helmOp.Name,
			objects[at].GetName())
	}
	rendered, err := previewer.RenderOffline(ctx, release, p.kubeVersion, p.apiVersions)
	if err != nil {
		return err
	}
	var masker *preview.Masker
	if !p.showSecrets {
		masker = preview.NewMasker(release.SecretValues)
	}
	return writeDocuments(p.Streams.Out, masker, slices.Concat(rendered.CRDs, []string{rendered.Manifest}, rendered.Hooks))
}

// objectsIn returns the objects in YAML documents.
func objectsIn(data []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &object.Object); err != nil {
			return nil, err
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

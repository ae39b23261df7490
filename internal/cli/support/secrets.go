// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package support

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
)

// templateAction matches the actions in a templated name.
var templateAction = regexp.MustCompile(`\{\{.*?\}\}|\$\{.*?\}`)

// secretNames are the Secrets of a namespace to which objects refer. fixed are names; templates are names with template
// actions.
type secretNames struct{ fixed, templates []string }

// add adds a name or a template.
func (s *secretNames) add(name string) {
	if templateAction.MatchString(name) {
		s.templates = append(s.templates, name)
		return
	}
	s.fixed = append(s.fixed, name)
}

// addSpec adds the Secrets to which the spec of a HelmOp refers.
func (s *secretNames) addSpec(spec *addonsv1.HelmOpSpec) {
	refs := []*addonsv1.SecretReference{spec.Source.SecretRef, spec.Source.CertSecretRef, spec.Source.ProxySecretRef}
	if verify := spec.Source.Verify; verify != nil {
		refs = append(refs, verify.SecretRef, verify.TrustedRootSecretRef)
	}
	if spec.Storage != nil && spec.Storage.Registry != nil {
		registry := spec.Storage.Registry
		refs = append(refs, registry.SecretRef, registry.CertSecretRef, registry.ProxySecretRef)
	}
	for _, ref := range refs {
		if ref != nil {
			s.add(ref.Name)
		}
	}
	values := slices.Clone(spec.ValuesFrom)
	for i := range spec.Overrides {
		values = append(values, spec.Overrides[i].ValuesFrom...)
	}
	for i := range values {
		if values[i].Kind == apiutil.KindSecret {
			s.add(values[i].Name)
		}
	}
}

// addPodSpec adds the Secrets to which the containers and volumes of a Pod refer.
func (s *secretNames) addPodSpec(spec *corev1.PodSpec) {
	for i := range spec.Volumes {
		if secret := spec.Volumes[i].Secret; secret != nil {
			s.add(secret.SecretName)
		}
		if projected := spec.Volumes[i].Projected; projected != nil {
			for _, source := range projected.Sources {
				if source.Secret != nil {
					s.add(source.Secret.Name)
				}
			}
		}
	}
	for _, container := range slices.Concat(spec.InitContainers, spec.Containers) {
		for _, from := range container.EnvFrom {
			if from.SecretRef != nil {
				s.add(from.SecretRef.Name)
			}
		}
		for _, variable := range container.Env {
			if variable.ValueFrom != nil && variable.ValueFrom.SecretKeyRef != nil {
				s.add(variable.ValueFrom.SecretKeyRef.Name)
			}
		}
	}
}

// matches reports whether a template may produce a name.
func (s *secretNames) matches(name string) bool {
	return slices.ContainsFunc(s.templates, func(template string) bool {
		var literals []string
		for _, literal := range templateAction.Split(template, -1) {
			literals = append(literals, regexp.QuoteMeta(literal))
		}
		pattern, err := regexp.Compile("^" + strings.Join(literals, ".*") + "$")
		return err == nil && pattern.MatchString(name)
	})
}

// readSecrets returns the values in the named Secrets of a namespace. note is called for Secrets that cannot be read.
func readSecrets(ctx context.Context, c kubernetes.Interface, namespace string, names *secretNames,
	note func(what string, err error),
) []any {
	var values []any
	secrets := c.CoreV1().Secrets(namespace)
	fixed := slices.Clone(names.fixed)
	slices.Sort(fixed)
	for _, name := range slices.Compact(fixed) {
		secret, err := secrets.Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			note(fmt.Sprintf("the Secret %s/%s, so that its values are not searched for", namespace, name), kube.Explain(err))
		default:
			values = append(values, valuesOf(secret)...)
		}
	}
	if len(names.templates) == 0 {
		return values
	}
	list, err := secrets.List(ctx, metav1.ListOptions{})
	if err != nil {
		note(fmt.Sprintf("the Secrets of namespace %s, so that the values of those with templated names are not searched for",
			namespace), kube.Explain(err))
		return values
	}
	for i := range list.Items {
		if names.matches(list.Items[i].Name) {
			values = append(values, valuesOf(&list.Items[i])...)
		}
	}
	return values
}

// valuesOf returns the values of a Secret as texts. For YAML and JSON, it also returns the texts in them.
func valuesOf(secret *corev1.Secret) []any {
	var values []any
	for _, data := range secret.Data {
		text := strings.TrimSpace(string(data))
		values = append(values, text)
		switch value := yamlOf(text).(type) {
		case map[string]any, []any:
			values = append(values, value)
		}
	}
	return values
}

// keyOf returns the key of an object.
func keyOf(object client.Object) string { return client.ObjectKeyFromObject(object).String() }

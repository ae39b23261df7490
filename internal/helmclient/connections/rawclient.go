/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package connections

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// Raw returns a client for requests that no other client knows.
func (g *Getter) Raw() (rest.Interface, error) {
	config := rest.CopyConfig(g.Config)
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	config.ContentType = runtime.ContentTypeJSON
	return rest.UnversionedRESTClientFor(config)
}

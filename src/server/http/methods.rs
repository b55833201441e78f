//! The methods of a service, by their descriptors: what each takes, gives and is called by.
use prost_reflect::{DescriptorPool, MessageDescriptor, MethodDescriptor};
use prost_types::method_options::IdempotencyLevel;
use std::collections::HashMap;
use std::sync::Arc;

/// All methods that are served, by their paths.
#[derive(Debug)]
pub(crate) struct Methods {
    pool: DescriptorPool,
    by_path: HashMap<String, Arc<Method>>,
}

/// A method that is served.
#[derive(Debug)]
pub(crate) struct Method {
    pub(super) input: MessageDescriptor,
    pub(super) output: MessageDescriptor,
    pub(super) kind: Kind,
    /// `idempotency_level = NO_SIDE_EFFECTS`: it can be called by GET.
    pub(super) has_no_side_effects: bool,
    /// Bytes of a request message at most.
    pub(super) max_request: usize,
}

/// How many messages each side sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Unary,
    ServerStream,
    /// The client sends a stream, or both do.
    ClientStream,
}

/// Bytes of a request message at most.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MaxRequest {
    /// For a unary call.
    pub(crate) unary: usize,
    /// For a call that is answered by a stream.
    pub(crate) stream: usize,
}

impl Methods {
    /// The methods of all services in these encoded `FileDescriptorSet`s. Their messages may be in details of errors too.
    ///
    /// # Panics
    /// If one cannot be read: they are made by the build.
    pub(crate) fn new(descriptors: &[&[u8]], max_request: MaxRequest) -> Self {
        let mut pool = DescriptorPool::new();
        for set in descriptors {
            pool.decode_file_descriptor_set(*set).expect("the build makes valid descriptors");
        }
        let path = |method: &MethodDescriptor| format!("/{}/{}", method.parent_service().full_name(), method.name());
        let methods = pool.services().flat_map(|service| service.methods().collect::<Vec<_>>());
        let by_path = methods
            .map(|method| (path(&method), Arc::new(Method::new(&method, max_request))))
            .collect::<HashMap<_, _>>();
        Methods { pool, by_path }
    }

    pub(super) fn get(&self, path: &str) -> Option<&Arc<Method>> {
        self.by_path.get(path)
    }

    pub(super) fn message(&self, name: &str) -> Option<MessageDescriptor> {
        self.pool.get_message_by_name(name)
    }
}

impl Method {
    fn new(method: &MethodDescriptor, max_request: MaxRequest) -> Self {
        let proto = method.method_descriptor_proto();
        let level = proto.options.as_ref().map(prost_types::MethodOptions::idempotency_level);
        let kind = match (method.is_client_streaming(), method.is_server_streaming()) {
            (true, _) => Kind::ClientStream,
            (false, true) => Kind::ServerStream,
            (false, false) => Kind::Unary,
        };
        Method {
            input: method.input(),
            output: method.output(),
            kind,
            has_no_side_effects: level == Some(IdempotencyLevel::NoSideEffects),
            max_request: if kind == Kind::Unary { max_request.unary } else { max_request.stream },
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn ours() -> Methods {
        let sets = [crate::proto::DESCRIPTORS, tonic_types::pb::FILE_DESCRIPTOR_SET];
        Methods::new(&sets, MaxRequest { unary: 1_000, stream: 2_000 })
    }

    pub(in super::super) fn method(name: &str) -> Arc<Method> {
        ours().get(&format!("/pausewatch.v1.ElicitationService/{name}")).expect("it is there").clone()
    }

    #[test]
    fn a_method_is_what_its_descriptor_says() {
        let of = |name| {
            let method = method(name);
            (method.kind, method.has_no_side_effects, method.max_request)
        };
        assert_eq!(of("IncrementElicitation"), (Kind::Unary, false, 1_000));
        assert_eq!(of("GetPauseState"), (Kind::Unary, true, 1_000));
        assert_eq!(of("ListPauseStates"), (Kind::Unary, true, 1_000));
        assert_eq!(of("WatchPauseState"), (Kind::ServerStream, true, 2_000));
        assert_eq!(of("Watch").0, Kind::ClientStream);
        assert!(ours().get("/pausewatch.v1.ElicitationService/Nothing").is_none());
        assert!(ours().message("google.rpc.ErrorInfo").is_some());
    }
}

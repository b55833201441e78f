//! Server reflection, for grpcurl and similar tools. An unknown name is answered with an `error_response`, as the
//! protocol requires, and the stream continues; the service of `tonic-reflection` would end it.
//!
//! The messages of v1 and v1alpha are the same on the wire, so one implementation answers both.
use crate::proto::DESCRIPTORS;
use prost_reflect::{DescriptorPool, FileDescriptor};
use std::pin::Pin;
use std::sync::LazyLock;
use tokio_stream::{Stream, StreamExt};
use tonic::body::Body;
use tonic::codegen::http::{Request as HttpRequest, Uri};
use tonic::{Code, Request, Response, Status, Streaming, async_trait};
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_reflection::pb::v1::server_reflection_server::{ServerReflection, ServerReflectionServer};
use tonic_reflection::pb::v1::{
    ErrorResponse, ExtensionNumberResponse, FileDescriptorResponse, ListServiceResponse, ServerReflectionRequest,
    ServerReflectionResponse, ServiceResponse,
};

pub(super) use tonic_reflection::pb::v1::server_reflection_server::SERVICE_NAME as V1;

/// The maximum size of a request of reflection or health, in bytes: they have a name.
pub(super) const MAX_SMALL_REQUEST: usize = 4_096;

/// The name of the older version.
pub(super) const V1ALPHA: &str = "grpc.reflection.v1alpha.ServerReflection";

/// Created at the first request: most servers never get one, and the private coordinator of `run` must start quickly.
static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    let mut pool = DescriptorPool::new();
    for set in [
        DESCRIPTORS,
        tonic_health::pb::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
        // Lets grpcurl show the details of errors.
        tonic_types::pb::FILE_DESCRIPTOR_SET,
    ] {
        pool.decode_file_descriptor_set(set).expect("builds make valid descriptors");
    }
    pool
});

/// Describes all that is served.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reflection;

impl Reflection {
    /// The service of v1.
    pub(super) fn service() -> ServerReflectionServer<Self> {
        ServerReflectionServer::new(Reflection).max_decoding_message_size(MAX_SMALL_REQUEST)
    }

    fn answer(request: ServerReflectionRequest) -> ServerReflectionResponse {
        let response = match &request.message_request {
            None => Err(error(Code::InvalidArgument, "the request asks for nothing")),
            Some(asked) => Self::find(asked).ok_or_else(|| error(Code::NotFound, "the server has no such name")),
        };
        ServerReflectionResponse {
            valid_host: request.host.clone(),
            message_response: Some(response.unwrap_or_else(MessageResponse::ErrorResponse)),
            original_request: Some(request),
        }
    }

    fn find(asked: &MessageRequest) -> Option<MessageResponse> {
        let pool = &*POOL;
        match asked {
            MessageRequest::FileByFilename(name) => pool.get_file_by_name(name).map(described),
            MessageRequest::FileContainingSymbol(name) => {
                Self::containing(name).or_else(|| Self::containing_member(name)).map(described)
            }
            MessageRequest::FileContainingExtension(asked) => {
                let number = u32::try_from(asked.extension_number).ok()?;
                let extension = pool.get_message_by_name(&asked.containing_type)?.get_extension(number)?;
                Some(described(extension.parent_file()))
            }
            MessageRequest::AllExtensionNumbersOfType(name) => {
                let extensions = pool.get_message_by_name(name)?;
                let extension_number =
                    extensions.extensions().map(|extension| extension.number().cast_signed()).collect();
                let numbers = ExtensionNumberResponse { base_type_name: name.clone(), extension_number };
                Some(MessageResponse::AllExtensionNumbersResponse(numbers))
            }
            MessageRequest::ListServices(_) => {
                let service = pool.services().map(|service| ServiceResponse { name: service.full_name().to_owned() });
                Some(MessageResponse::ListServicesResponse(ListServiceResponse { service: service.collect() }))
            }
        }
    }

    /// The file of a service, message, enum or extension.
    fn containing(name: &str) -> Option<FileDescriptor> {
        let pool = &*POOL;
        pool.get_service_by_name(name)
            .map(|service| service.parent_file())
            .or_else(|| pool.get_message_by_name(name).map(|message| message.parent_file()))
            .or_else(|| pool.get_enum_by_name(name).map(|of| of.parent_file()))
            .or_else(|| pool.get_extension_by_name(name).map(|extension| extension.parent_file()))
    }

    /// The file of a method, field or oneof.
    fn containing_member(name: &str) -> Option<FileDescriptor> {
        let pool = &*POOL;
        let (parent, name) = name.rsplit_once('.')?;
        let has_method =
            || pool.get_service_by_name(parent)?.methods().any(|method| method.name() == name).then_some(());
        let has_field = || {
            let message = pool.get_message_by_name(parent)?;
            let has = message.get_field_by_name(name).is_some() || message.oneofs().any(|oneof| oneof.name() == name);
            has.then_some(())
        };
        has_method().or_else(has_field).and_then(|()| Self::containing(parent))
    }
}

fn described(file: FileDescriptor) -> MessageResponse {
    MessageResponse::FileDescriptorResponse(FileDescriptorResponse {
        file_descriptor_proto: vec![file.encode_to_vec()],
    })
}

fn error(code: Code, message: &str) -> ErrorResponse {
    ErrorResponse { error_code: code.into(), error_message: message.to_owned() }
}

#[async_trait]
impl ServerReflection for Reflection {
    type ServerReflectionInfoStream = Pin<Box<dyn Stream<Item = Result<ServerReflectionResponse, Status>> + Send>>;

    async fn server_reflection_info(
        &self,
        requests: Request<Streaming<ServerReflectionRequest>>,
    ) -> Result<Response<Self::ServerReflectionInfoStream>, Status> {
        let answers = requests.into_inner().map(|request| Ok(Self::answer(request?)));
        Ok(Response::new(Box::pin(answers)))
    }
}

/// Turns a call of v1alpha into the same of v1.
pub(super) fn v1(mut request: HttpRequest<Body>) -> HttpRequest<Body> {
    let path = request.uri().path().replacen(".v1alpha.", ".v1.", 1);
    *request.uri_mut() = Uri::try_from(path).expect("a part of a path is left out");
    request
}

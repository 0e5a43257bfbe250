package braid;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.ZoneOffset;
import java.time.temporal.ChronoUnit;
import java.util.Map;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import org.apache.avro.LogicalType;
import org.apache.avro.LogicalTypes;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericFixed;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.io.BinaryDecoder;
import org.apache.avro.io.DecoderFactory;
import org.apache.spark.sql.api.java.UDF3;

/**
 * A record in the wire format of a schema registry as the JSON object that says the same, or "!" and the reason why not.
 *
 * A record is read with the schema that it was written with, which the registry has under the id in its first bytes:
 * a field that this schema lacks is absent, as it would be in JSON. A registry that does not answer is an error, so that
 * the micro-batch is tried again; only what the registry says that it does not have is a reason.
 */
public final class AvroText implements UDF3<byte[], String, String, String> {
    private static final JsonFactory JSON = new JsonFactory();
    private static final int HEAD = 5;

    @Override
    public String call(byte[] value, String name, String address) throws Exception {
        if (value == null || value.length == 0) {
            return null;
        }
        if (value.length < HEAD || value[0] != 0) {
            return "!unparsable: no Avro record with the id of a schema";
        }
        int id = ByteBuffer.wrap(value, 1, 4).getInt();
        SchemaRegistry.Found found = SchemaRegistry.of(name, address).schema(id);
        if (found.schema() == null) {
            return "!" + found.reason();
        }
        try {
            return text(found.schema(), value);
        } catch (RuntimeException | IOException damaged) {
            return "!unparsable: no record of schema " + id;
        }
    }

    private static String text(Schema schema, byte[] value) throws IOException {
        if (schema.getType() != Schema.Type.RECORD) {
            throw new IOException("not a record");
        }
        BinaryDecoder decoder = DecoderFactory.get().binaryDecoder(value, HEAD, value.length - HEAD, null);
        Object record = new GenericDatumReader<>(schema).read(null, decoder);
        if (!decoder.isEnd()) {
            throw new IOException("bytes are left");
        }
        ByteArrayOutputStream bytes = new ByteArrayOutputStream(value.length * 4);
        try (JsonGenerator json = JSON.createGenerator(bytes)) {
            write(json, schema, record);
        }
        return bytes.toString(StandardCharsets.UTF_8);
    }

    private static void write(JsonGenerator json, Schema schema, Object value) throws IOException {
        switch (schema.getType()) {
            case UNION -> write(json, schema.getTypes().get(GenericData.get().resolveUnion(schema, value)), value);
            case NULL -> json.writeNull();
            case RECORD -> {
                json.writeStartObject();
                for (Schema.Field field : schema.getFields()) {
                    json.writeFieldName(field.name());
                    write(json, field.schema(), ((GenericRecord) value).get(field.pos()));
                }
                json.writeEndObject();
            }
            case ARRAY -> {
                json.writeStartArray();
                for (Object item : (Iterable<?>) value) {
                    write(json, schema.getElementType(), item);
                }
                json.writeEndArray();
            }
            case MAP -> {
                json.writeStartObject();
                for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet()) {
                    json.writeFieldName(entry.getKey().toString());
                    write(json, schema.getValueType(), entry.getValue());
                }
                json.writeEndObject();
            }
            case BOOLEAN -> json.writeBoolean((Boolean) value);
            case INT, LONG -> whole(json, schema.getLogicalType(), ((Number) value).longValue());
            case FLOAT -> json.writeNumber((Float) value);
            case DOUBLE -> json.writeNumber((Double) value);
            case BYTES -> bytes(json, schema.getLogicalType(), of((ByteBuffer) value));
            case FIXED -> bytes(json, schema.getLogicalType(), ((GenericFixed) value).bytes());
            default -> json.writeString(value.toString());
        }
    }

    /** Times as they are written by people: what is a local one stays without a zone. */
    private static void whole(JsonGenerator json, LogicalType type, long number) throws IOException {
        switch (type == null ? "" : type.getName()) {
            case "date" -> json.writeString(LocalDate.ofEpochDay(number).toString());
            case "time-millis" -> json.writeString(LocalTime.ofNanoOfDay(number * 1_000_000).toString());
            case "time-micros" -> json.writeString(LocalTime.ofNanoOfDay(number * 1_000).toString());
            case "timestamp-millis" -> json.writeString(Instant.ofEpochMilli(number).toString());
            case "timestamp-micros" -> json.writeString(micros(number).toString());
            case "local-timestamp-millis" -> json.writeString(local(Instant.ofEpochMilli(number)));
            case "local-timestamp-micros" -> json.writeString(local(micros(number)));
            default -> json.writeNumber(number);
        }
    }

    private static void bytes(JsonGenerator json, LogicalType type, byte[] content) throws IOException {
        if (type instanceof LogicalTypes.Decimal decimal) {
            json.writeNumber(new BigDecimal(new BigInteger(content), decimal.getScale()).toPlainString());
        } else {
            json.writeBinary(content);
        }
    }

    private static byte[] of(ByteBuffer buffer) {
        byte[] content = new byte[buffer.remaining()];
        buffer.duplicate().get(content);
        return content;
    }

    private static Instant micros(long number) {
        return Instant.EPOCH.plus(number, ChronoUnit.MICROS);
    }

    private static String local(Instant moment) {
        return LocalDateTime.ofInstant(moment, ZoneOffset.UTC).toString();
    }
}
